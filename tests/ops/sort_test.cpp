// sort, argsort and topk against a stable sort of the standard library.
#include "lathe/ops/sort.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compare.h"
#include "lathe/ops/index.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  int64_t dim;
};
const Case kCases[] = {
    {{7}, 0},    {{3, 5}, 1}, {{5, 3}, 0}, {{2, 6, 3}, 1}, {{2, 100}, -1}, {{100, 2}, 0},
    {{4, 1}, 1}, {{}, 0},     {{0, 3}, 1}, {{3, 0}, 1},    {{2, 700}, 1},  {{300, 3}, 0},
};

/// The order of each line, by a stable sort; the lines of the result one after another as in the
/// tensor.
std::vector<double> order_of(const Tensor& x, int64_t dim_in, int64_t k, bool descending) {
  const int dim = wrap_dim("test", dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  int64_t inner = 1;
  for (int d = dim + 1; d < x.ndim(); ++d) inner *= x.shape()[d];
  const std::vector<double> v = x.to_vector<double>();
  const int64_t lines = n == 0 ? 0 : x.numel() / n;
  std::vector<double> result(static_cast<size_t>(lines * k));
  for (int64_t line = 0; line < lines; ++line) {
    const auto value = [&](int64_t i) {
      return v[static_cast<size_t>(line / inner * n * inner + line % inner + i * inner)];
    };
    std::vector<int64_t> at(static_cast<size_t>(n));
    std::iota(at.begin(), at.end(), 0);
    const auto less = [](double p, double q) { return std::isnan(q) ? !std::isnan(p) : p < q; };
    std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
      return descending ? less(value(b), value(a)) : less(value(a), value(b));
    });
    for (int64_t i = 0; i < k; ++i) {
      result[static_cast<size_t>(line / inner * k * inner + line % inner + i * inner)] =
          static_cast<double>(at[static_cast<size_t>(i)]);
    }
  }
  return result;
}

void check(const Tensor& x, int64_t dim) {
  const int64_t n = x.ndim() == 0 ? 1 : x.dim(dim);
  for (const bool descending : {false, true}) {
    const std::vector<double> want = order_of(x, dim, n, descending);
    const auto [values, indices] = sort(x, dim, {descending});
    const std::string text = concat("sort of ", x, " along ", dim, ": ");
    CHECK_MESSAGE(difference(indices, want, 0).empty(), text, difference(indices, want, 0));
    CHECK(difference(argsort(x, dim, {descending}), want, 0).empty());
    if (x.ndim() > 0 && x.numel() > 0)
      CHECK(difference(values, gather(x, dim, indices), 0).empty());
    CHECK(values.dtype() == x.dtype());
    for (const int64_t k : {int64_t{1}, int64_t{5}, n / 10, n / 2, n}) {
      if (k < 1 || k > n) continue;
      const auto top = topk(x, k, dim, {.largest = descending});
      CHECK(difference(top.indices, order_of(x, dim, k, descending), 0).empty());
      if (x.ndim() > 0 && x.numel() > 0)
        CHECK(difference(top.values, gather(x, dim, top.indices), 0).empty());
    }
  }
}

}  // namespace

TEST_CASE("sort, topk: order agrees with a stable sort in every layout and dtype") {
  manual_seed(15);
  for (const Case& c : kCases) {
    const Tensor x = round(randn(c.x, {.dtype = kF64}) * 2.0);  // with ties
    for (const Layout& layout : layouts()) check(layout.apply(x), c.dim);
    for (const DType dtype : {kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kBool}) {
      check(x.to(dtype), c.dim);
    }
  }
}

TEST_CASE("sort, topk: numbers of all sizes, digit by digit") {
  manual_seed(17);
  const Tensor x = randn({2, 500}, {.dtype = kF64}) * exp(randn({2, 500}, {.dtype = kF64}) * 20);
  for (const DType dtype : {kF64, kF32, kBF16}) check(x.to(dtype), 1);
  const Tensor n = randint(INT64_MIN / 2, INT64_MAX / 2, {3, 300});
  for (const DType dtype : {kI64, kI32, kI16, kI8, kU8}) {
    const Tensor m = n.to(dtype), order = argsort(m, 1), sorted = gather(m, 1, order);
    CHECK(all(sorted.slice(1, 0, 299) <= sorted.slice(1, 1, 300)).item<bool>());
    CHECK(difference(sort(order, 1).values.to(kI64)[2], arange(300), 0) == "");
  }
}

TEST_CASE("sort: NaN is the largest, infinities have their place") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kF64, kF32, kF16}) {
    const Tensor x = tensor({1.0, std::nan(""), -kInf, kInf, std::nan(""), 0.0}, kF64).to(dtype);
    check(x, 0);
    CHECK(sort(x).indices.to_vector<int64_t>() == std::vector<int64_t>{2, 5, 0, 3, 1, 4});
    CHECK(topk(x, 3).indices.to_vector<int64_t>() == std::vector<int64_t>{1, 4, 3});
  }
  const double nan = std::nan("");
  CHECK(sort(tensor({-nan, 1.0, nan, kInf}, kF64)).indices.to_vector<int64_t>() ==
        std::vector<int64_t>{1, 3, 0, 2});  // whatever its sign
  CHECK(sort(tensor({0.0, -0.0}, kF64)).indices.to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1});  // equal
}

TEST_CASE("sort, topk: gradients agree with finite differences") {
  manual_seed(16);
  const Tensor x = f64({3, 5, 2});
  check_gradients({"sort", [](const Tensors& in) { return sort(in[0], 1).values; }, {x}});
  check_gradients({"topk", [](const Tensors& in) { return topk(in[0], 2, 1).values; }, {x}});
  check_gradients({"topk smallest",
                   [](const Tensors& in) { return topk(in[0], 2, 0, {.largest = false}).values; },
                   {x}});
}

TEST_CASE("sort, topk: errors name the op and the values") {
  CHECK_THROWS_WITH_AS(topk(zeros({3, 4}), 5),
                       doctest::Contains("topk: k must be in [0, 4], got 5 (x: f32[3,4]@cpu)"),
                       ValueError);
  CHECK_THROWS_AS(topk(zeros({3}), -1), ValueError);
  CHECK_THROWS_AS(topk(zeros({}), 0), ValueError);
  CHECK_THROWS_WITH_AS(sort(zeros({3}), 1), doctest::Contains("sort: "), IndexError);
  CHECK(topk(zeros({3, 4}), 0).values.shape() == Shape{3, 0});
}
