// NamedTensor against the same computation by positions.
#include "lathe/ops/named_tensor.h"

#include <sstream>

#include "compare.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Names = NamedTensor::Names;

/// "" if the names are these and the values those.
std::string wrong(const NamedTensor& got, const Names& names, const Tensor& want) {
  if (got.names() != names) return "other names";
  return difference(got.tensor(), want, 1e-12);
}

}  // namespace

TEST_CASE("named tensor: parts, reductions and orders by name") {
  manual_seed(1);
  const Tensor x = randn({2, 3, 4, 5}, kF64);
  const NamedTensor n(x, {"N", "C", "H", "W"});
  CHECK(n.dim("H") == 2);
  CHECK(n.size("C") == 3);
  CHECK(wrong(n.select("C", -1), {"N", "H", "W"}, x.select(1, 2)) == "");
  CHECK(wrong(n.slice("W", 1, 5, 2), {"N", "C", "H", "W"}, x.slice(3, 1, 5, 2)) == "");
  CHECK(wrong(n.sum({"H", "N"}), {"C", "W"}, x.sum({0, 2})) == "");
  CHECK(wrong(n.mean({"W"}), {"N", "C", "H"}, x.mean({3})) == "");
  CHECK(wrong(n.amax({"C"}), {"N", "H", "W"}, amax(x, {1})) == "");
  CHECK(wrong(n.amin({"N", "C", "H", "W"}), {}, amin(x)) == "");
  CHECK(wrong(n.sum({}), {"N", "C", "H", "W"}, x) == "");
  CHECK(wrong(n.softmax("C"), {"N", "C", "H", "W"}, softmax(x, 1)) == "");
  CHECK(wrong(n.align_to({"N", "H", "W", "C"}), {"N", "H", "W", "C"}, x.permute({0, 2, 3, 1})) ==
        "");
  CHECK(wrong(n.align_to({"W", "...", "T"}), {"W", "N", "C", "H", "T"},
              x.permute({3, 0, 1, 2}).unsqueeze(4)) == "");
  CHECK(wrong(n.flatten({"H", "W"}, "P"), {"N", "C", "P"}, x.reshape({2, 3, 20})) == "");
  CHECK(wrong(n.unflatten("H", {{"a", 2}, {"b", -1}}), {"N", "C", "a", "b", "W"},
              x.reshape({2, 3, 2, 2, 5})) == "");
  CHECK(wrong(n.rename("H", "rows"), {"N", "C", "rows", "W"}, x) == "");
  CHECK(wrong(n.map([](const Tensor& t) { return t.exp(); }), n.names(), x.exp()) == "");
  CHECK(n.tensor().is_same(x));
  CHECK(n.select("N", 0).tensor().shares_storage(x));
}

TEST_CASE("named tensor: arithmetic matches names from the last dimension") {
  const Tensor x = randn({2, 3, 4}, kF64), b = randn({3}, kF64);
  const NamedTensor n(x, {"N", "C", "W"}), bias(b, {"C"});
  CHECK(wrong(n + bias.align_as(n), n.names(), x + b.view({1, 3, 1})) == "");
  CHECK(wrong(n - n.mean({"W"}).align_as(n), n.names(), x - x.mean({2}, true)) == "");
  const NamedTensor unnamed(b.view({3, 1}), {"", ""});
  CHECK(wrong(unnamed * n, n.names(), b.view({3, 1}) * x) == "");
  CHECK(wrong(n / n, n.names(), ones({2, 3, 4}, kF64)) == "");
  CHECK_THROWS_WITH_AS(n + bias, Contains("\"W\" meets \"C\""), ValueError);
  const NamedTensor square(randn({3, 3}, kF64), {"W", "C"});
  CHECK_THROWS_AS(NamedTensor(x, {"N", "C", ""}) + NamedTensor(b.view({3, 1}), {"", "N"}),
                  ValueError);

  const NamedTensor w(randn({4, 6}, kF64), {"in", "out"});
  CHECK(wrong(matmul(n, w), {"N", "C", "out"}, matmul(x, w.tensor())) == "");
  CHECK_THROWS_AS(matmul(n, NamedTensor(randn({4, 3}, kF64), {"in", "C"})), ValueError);
  CHECK_THROWS_AS(matmul(n, NamedTensor(randn({4}, kF64), {"in"})), ShapeError);
}

TEST_CASE("named tensor: gradients flow, and it prints its names") {
  const Tensor x = ones({2, 3}, lathe::requires_grad());
  const NamedTensor n(x, {"N", "C"});
  (n * n).sum({"N", "C"}).tensor().backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(6, 2));
  std::ostringstream text;
  text << n;
  CHECK(text.str().starts_with("N: 2, C: 3\n"));
}

TEST_CASE("named tensor: bad names are refused") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(NamedTensor(x, {"N"}), ShapeError);
  CHECK_THROWS_WITH_AS(NamedTensor(x, {"N", "N"}), Contains("comes twice"), ValueError);
  const NamedTensor n(x, {"N", "C"});
  CHECK_THROWS_WITH_AS(n.sum({"T"}), Contains("no dimension \"T\" among N, C"), IndexError);
  CHECK_THROWS_AS(n.align_to({"N"}), ValueError);
  CHECK_THROWS_AS(n.align_to({"N", "C", "N"}), ValueError);
  CHECK_THROWS_AS(n.flatten({"C", "N"}, "x"), ValueError);
  CHECK_THROWS_AS(n.unflatten("C", {{"a", 2}, {"b", 2}}), ShapeError);
  const NamedTensor nothing(zeros({0, 6}), {"N", "C"});
  CHECK_THROWS_AS(nothing.unflatten("C", {{"a", 4}, {"b", 5}}), ShapeError);
  CHECK(nothing.unflatten("C", {{"a", -1}, {"b", 2}}).shape() == Shape{0, 3, 2});
  CHECK_THROWS_AS(n.unflatten("C", {{"a", -1}, {"b", -1}}), ShapeError);
  CHECK_THROWS_AS(n.unflatten("C", {{"a", INT64_MAX}, {"b", 4}}), ShapeError);
  CHECK_THROWS_AS(NamedTensor(x, {"N", ""}).align_to({"N", ""}), ValueError);
  CHECK_THROWS_AS(NamedTensor(x, {"N", "..."}), ValueError);
  CHECK_THROWS_AS(n.rename("N", "C"), ValueError);
  CHECK_THROWS_AS(n.select("C", 3), IndexError);
  CHECK_THROWS_AS(NamedTensor(x, {"", ""}).dim(""), IndexError);
}
