// Extremes with their index against a direct search: values, places, ties, NaN, gradients, errors.
#include "lathe/ops/argmax.h"

#include <limits>

#include "compare.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  int64_t dim;
};
const Case kCases[] = {
    {{3, 4}, 1},   {{3, 4}, 0}, {{2, 3, 4}, 1}, {{2, 3, 4}, -1},
    {{5, 1}, 1},   {{1, 7}, 0}, {{3, 700}, 1},  // longer than the lanes of a fold
    {{700, 3}, 0}, {{}, 0},     {{0, 3}, 1},    {{4}, -1},
};

struct Found {
  std::vector<double> value, at;
};

Found search(const Tensor& x, int64_t dim_in, bool largest) {
  Found found;
  if (x.numel() == 0) return found;
  const int dim = wrap_dim("test", dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  int64_t inner = 1;
  for (int d = dim + 1; d < x.ndim(); ++d) inner *= x.shape()[d];
  const std::vector<double> v = x.to_vector<double>();
  for (int64_t line = 0; line < x.numel() / n; ++line) {
    const int64_t start = line / inner * n * inner + line % inner;
    int64_t best = 0;
    const auto value = [&](int64_t i) { return v[static_cast<size_t>(start + i * inner)]; };
    for (int64_t i = 1; i < n; ++i) {
      if (std::isnan(value(best))) break;
      if (std::isnan(value(i)) || (largest ? value(i) > value(best) : value(i) < value(best)))
        best = i;
    }
    found.value.push_back(value(best));
    found.at.push_back(static_cast<double>(best));
  }
  return found;
}

void check(const Tensor& x, int64_t dim) {
  for (const bool largest : {true, false}) {
    const Found want = search(x, dim, largest);
    const auto [m, at] = largest ? max(x, dim) : min(x, dim);
    const Tensor alone = largest ? argmax(x, dim) : argmin(x, dim);
    const std::string text = concat(largest ? "max of " : "min of ", x, " over ", dim, ": ");
    CHECK_MESSAGE(difference(m, want.value, 0).empty(), text, difference(m, want.value, 0));
    CHECK_MESSAGE(difference(at, want.at, 0).empty(), text, difference(at, want.at, 0));
    CHECK(difference(alone, want.at, 0).empty());
    CHECK(m.dtype() == x.dtype());
    CHECK(at.dtype() == kI64);
    const auto kept = largest ? max(x, dim, {.keepdim = true}) : min(x, dim, {.keepdim = true});
    CHECK(kept.values.ndim() == x.ndim());
    CHECK(difference(kept.indices, want.at, 0).empty());
  }
}

}  // namespace

TEST_CASE("argmax: value and place agree with a search in every layout and dtype") {
  manual_seed(2);
  for (const Case& c : kCases) {
    const Tensor x = round(randn(c.x, {.dtype = kF64}) * 3.0);  // with ties
    for (const Layout& layout : layouts()) check(layout.apply(x), c.dim);
    for (const DType dtype : {kF32, kF16, kBF16, kI64, kI32, kI8, kBool}) check(x.to(dtype), c.dim);
    check(abs(x).to(kU8), c.dim);
  }
}

TEST_CASE("argmax: the first NaN wins") {
  for (const DType dtype : {kF64, kF32, kF16}) {
    const Tensor x = randn({50, 4}, {.dtype = dtype});
    x.select(0, 20).fill_(std::numeric_limits<double>::quiet_NaN());
    x.select(0, 30).fill_(std::numeric_limits<double>::quiet_NaN());
    check(x, 0);
    check(x.transpose(0, 1), 1);
    CHECK(argmax(x, 0)[1].item<int64_t>() == 20);
    check(full({3, 5}, -std::numeric_limits<double>::infinity(), {.dtype = dtype}), 1);
  }
}

TEST_CASE("argmax: without a dimension the place in the flattened tensor") {
  const Tensor x = tensor({{1.f, 9.f, 2.f}, {9.f, 0.f, 0.f}});
  CHECK(argmax(x).item<int64_t>() == 1);
  CHECK(argmin(x).item<int64_t>() == 4);
  CHECK(argmax(x.t()).item<int64_t>() == 1);  // order of the view, not of the memory: 1 9 9 0 2 0
  CHECK(argmax(x).ndim() == 0);
  CHECK(argmax(x, {.keepdim = true}).shape() == Shape{1, 1});  // torch: argmax(None, keepdim=True)
  CHECK(argmax(x, {.keepdim = true}).item<int64_t>() == 1);
  CHECK(argmin(x, {.keepdim = true}).item<int64_t>() == 4);
  CHECK(argmin(tensor(3), {.keepdim = true}).shape() == Shape{});
  CHECK(x.argmax(1).to_vector<int64_t>() == std::vector<int64_t>{1, 0});
}

TEST_CASE("argmax: the whole gradient goes to the element at the index") {
  const auto f = [](const Tensors& in) { return max(in[0], 1).values; };
  const auto g = [](const Tensors& in) { return min(in[0], 0, {.keepdim = true}).values; };
  check_gradients({"max", f, {f64({2, 5, 3})}});
  check_gradients({"min", g, {f64({4, 3})}});
  const Tensor x = tensor({{2.0, 2.0, 1.0}}, {.requires_grad = true});
  max(x, 1).values.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 0, 0});
}

TEST_CASE("argmax: errors name the op and the values") {
  CHECK_THROWS_WITH_AS(argmax(zeros({2, 0}), 1),
                       doctest::Contains("argmax: dimension 1 has no elements (x: f32[2,0]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(argmin(zeros({0})), doctest::Contains("argmin: the tensor has no elements"),
                       ShapeError);
  CHECK_THROWS_AS(max(zeros({2}), 1), IndexError);
  CHECK(max(zeros({0, 3}), 1).values.shape() == Shape{0});
}
