// Statistics of lines and tensors. The numbers are PyTorch's (2.15, f64).
#include "lathe/ops/statistics.h"

#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const Tensor kA = tensor({{1.0, -2.0, 3.0}, {0.5, 4.0, -5.0}}, kF64);
const Tensor kX =
    tensor({{3.0, 1.0, 2.0, 2.0}, {5.0, -1.0, kNaN, 0.0}, {4.0, 4.0, 1.0, 7.0}}, kF64);

std::vector<int> whole(const Tensor& t) { return t.cpu().to_vector<int>(); }
}  // namespace

TEST_CASE("var_mean, std_mean, count_nonzero: values in every layout") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor a = layout.apply(kA);
    const auto [v, m] = var_mean(a, {1});
    CHECK(difference(v, {6.333333333333333, 20.583333333333336}, 1e-14) == "");
    CHECK(difference(m, {0.6666666666666667, -0.16666666666666652}, 1e-15) == "");
    const auto [s, n] = std_mean(a, {0}, {.keepdim = true, .correction = 0});
    CHECK(s.shape() == Shape{1, 3});
    CHECK(difference(s, {0.25, 3, 4}, 1e-15) == "");
    CHECK(difference(n, {0.75, 1, -1}, 1e-15) == "");
    const Tensor numbers = layout.apply(tensor({{0.0, 1.0, kNaN}, {0.0, 0.0, 2.0}}, kF64));
    CHECK(whole(count_nonzero(numbers, {1})) == std::vector<int>{2, 1});
    CHECK(count_nonzero(numbers).item<int64_t>() == 3);
  }
}

TEST_CASE("median, kthvalue: values and indices in every layout, on every device") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor x = layout.apply(kX).to(device), a = layout.apply(kA).to(device);
      const auto [values, indices] = median(x, 1);
      CHECK(difference(values.cpu(), {2, kNaN, 4}, 0) == "");
      CHECK(whole(indices) == std::vector<int>{2, 2, 0});
      const auto columns = median(x, 0, {.keepdim = true});
      CHECK(columns.values.shape() == Shape{1, 4});
      CHECK(difference(columns.values.cpu(), {4, 1, kNaN, 2}, 0) == "");
      CHECK(whole(columns.indices) == std::vector<int>{2, 0, 1, 0});
      CHECK(std::isnan(median(x).item<double>()));
      CHECK(median(a).item<double>() == 0.5);
      const auto second = kthvalue(a, 2, 1);
      CHECK(difference(second.values.cpu(), {1, 0.5}, 0) == "");
      CHECK(whole(second.indices) == std::vector<int>{0, 0});
      const auto least = kthvalue(a, 1, 0, {.keepdim = true});
      CHECK(difference(least.values.cpu(), {0.5, -2, -5}, 0) == "");
      CHECK(least.indices.shape() == Shape{1, 3});
      CHECK(whole(least.indices) == std::vector<int>{1, 0, 1});
    }
  }
  CHECK(whole(median(tensor({kNaN, 1.0, kNaN}, kF64), 0).indices) == std::vector<int>{0});
  CHECK(std::isnan(median(zeros({0, 2}, kF64)).item<double>()));
  CHECK_THROWS_AS(median(zeros({0}, kI64)), ShapeError);
  CHECK(median(tensor({5, 1, 3, 2})).item<int>() == 2);
  CHECK(median(tensor(4.0, kF64), 0).values.item<double>() == 4);
  CHECK(kthvalue(tensor(4.0, kF64), 1).indices.item<int64_t>() == 0);
}

TEST_CASE("quantile: values of every interpolation, NaN, keepdim") {
  const Tensor q = tensor({0.0, 0.3, 0.5, 1.0}, kF64);
  const std::pair<QuantileMode, Values> cases[] = {
      {QuantileMode::kLinear, {-2, -5, -0.2, -1.7, 1, 0.5, 3, 4}},
      {QuantileMode::kLower, {-2, -5, -2, -5, 1, 0.5, 3, 4}},
      {QuantileMode::kHigher, {-2, -5, 1, 0.5, 1, 0.5, 3, 4}},
      {QuantileMode::kMidpoint, {-2, -5, -0.5, -2.25, 1, 0.5, 3, 4}},
      {QuantileMode::kNearest, {-2, -5, 1, 0.5, 1, 0.5, 3, 4}},
  };
  for (const Layout& layout : layouts()) {
    const Tensor a = layout.apply(kA);
    for (const auto& [mode, want] : cases) {
      CAPTURE(concat(layout.name, " ", static_cast<int>(mode)));
      const Tensor y = quantile(a, q, {.dim = 1, .interpolation = mode});
      CHECK(y.shape() == Shape{4, 2});
      CHECK(difference(y, want, 1e-15) == "");
    }
    const Tensor kept = quantile(layout.apply(kX), q, {.dim = 0, .keepdim = true});
    CHECK(kept.shape() == Shape{4, 1, 4});
    CHECK(difference(kept, {3, -1, kNaN, 0, 3.6, 0.2, kNaN, 1.2, 4, 1, kNaN, 2, 5, 4, kNaN, 7},
                     1e-15) == "");
    CHECK(quantile(a, 0.4).item<double>() == 0.5);
    CHECK(quantile(a, 0.4, {.keepdim = true}).shape() == Shape{1, 1});
    CHECK(quantile(a, q, {.keepdim = true}).shape() == Shape{4, 1, 1});
    CHECK(difference(quantile(a, q), {-5, -0.75, 0.75, 4}, 1e-15) == "");
  }
  CHECK(quantile(tensor({1.f, 2.f, 4.f, 8.f}), 0.9, {.dim = 0}).item<double>() ==
        doctest::Approx(6.799999713897705));
}

TEST_CASE("median: of all elements, equal medians share the gradient") {
  const auto gradient = [](const Values& v) {
    const Tensor x = tensor(v, kF64).requires_grad_();
    median(x).backward();
    return x.grad();
  };
  const double third = 1.0 / 3;
  CHECK(difference(gradient({1, 2, 2, 3, 2}), {0, third, third, 0, third}, 0) == "");
  CHECK(difference(gradient({1, kNaN, 2, kNaN}), {0, 0.5, 0, 0.5}, 0) == "");
  CHECK(difference(gradient({-1, -2, -3, -2}), {0, 0.5, 0, 0.5}, 0) == "");
}

TEST_CASE("median: infinite medians have PyTorch's gradients and indices") {
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    Values x, gradient;
    int index;
  } cases[] = {{{-inf, -inf, 1}, {0.5, 0.5, 0}, 1},
               {{inf, -inf, inf, -inf}, {0, 0.5, 0, 0.5}, 3},
               {{inf, inf, 1}, {0.5, 0.5, 0}, 0},
               {{-inf, -inf, -inf}, {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1}};
  for (const Device device : devices()) {
    for (const auto& c : cases) {
      const Tensor x = tensor(c.x).to(device).requires_grad_();
      const Tensor y = median(x);
      CHECK(y.item<double>() == c.x[static_cast<size_t>(c.index)]);
      y.backward();
      CHECK(difference(x.grad().cpu(), c.gradient, 1e-15) == "");
      CHECK(median(x, 0).indices.item<int>() == c.index);
    }
  }
}

TEST_CASE("quantile: the end of a line of more than 2^24 elements") {
  const Tensor x = zeros({16'777'220});
  x[16'777'219].fill_(1);
  CHECK(quantile(x, 1.0).item<float>() == 1);
}

TEST_CASE("cummax, cummin: values and the last of equal indices, NaN stays") {
  const Tensor y = tensor({{1.0, 3.0, 3.0, 2.0, kNaN, 5.0}, {4.0, 1.0, 7.0, 0.0, 7.0, 1.0}}, kF64);
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor x = layout.apply(y).to(device);
      const auto high = cummax(x, 1), low = cummin(x, 1), columns = cummax(x, 0);
      CHECK(difference(high.values.cpu(), {1, 3, 3, 3, kNaN, kNaN, 4, 4, 7, 7, 7, 7}, 0) == "");
      CHECK(whole(high.indices) == std::vector<int>{0, 1, 2, 2, 4, 4, 0, 0, 2, 2, 4, 4});
      CHECK(difference(low.values.cpu(), {1, 1, 1, 1, kNaN, kNaN, 4, 1, 1, 0, 0, 0}, 0) == "");
      CHECK(whole(low.indices) == std::vector<int>{0, 0, 0, 0, 4, 4, 0, 1, 1, 3, 3, 3});
      CHECK(difference(columns.values.cpu(), {1, 3, 3, 2, kNaN, 5, 4, 3, 7, 2, kNaN, 5}, 0) == "");
      CHECK(whole(columns.indices) == std::vector<int>{0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0});
    }
  }
  CHECK(cummax(tensor({2, 1, 3, 3}), 0).values.to_vector<int>() == std::vector<int>{2, 2, 3, 3});
  CHECK(cummin(zeros({2, 0}), 1).values.shape() == Shape{2, 0});
  CHECK(cummax(tensor(2.0, kF64), 0).values.item<double>() == 2);
}

TEST_CASE("statistics: gradients agree with finite differences, twice") {
  manual_seed(32);
  const Tensor x = f64({3, 5});
  // clang-format off
  const GradientCase cases[] = {
      {"var_mean", [](In in) { const auto [v, m] = var_mean(in[0], {1}); return v * m; }, {x}},
      {"std_mean", [](In in) { const auto [s, m] = std_mean(in[0], {1}); return s * m; }, {x}},
      {"median", [](In in) { return median(in[0], 1).values; }, {x}},
      {"median of all", [](In in) { return median(in[0]); }, {x}},
      {"kthvalue", [](In in) { return kthvalue(in[0], 2, 1).values; }, {x}},
      {"cummax", [](In in) { return cummax(in[0], 1).values; }, {x}},
      {"cummin", [](In in) { return cummin(in[0], 0).values; }, {x}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
  const auto f = [](In in) {
    return quantile(in[0], tensor({0.1, 0.6}).to(in[0].device()).to(in[0].dtype()), {.dim = 1});
  };
  check_gradients({"quantile", f, {x}});
}

TEST_CASE("statistics: errors name the op and the values") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(kthvalue(x, 4, 1), Contains("kthvalue: k must be in [1, 3], got 4"),
                       ValueError);
  CHECK_THROWS_WITH_AS(median(zeros({2, 0}), 1),
                       Contains("median: dimension 1 is empty (x: f32[2,0]@cpu)"), ShapeError);
  CHECK_THROWS_AS(median(x, 2), IndexError);
  CHECK_THROWS_WITH_AS(quantile(x, 1.5), Contains("quantile: q must be in [0, 1]"), ValueError);
  CHECK_THROWS_AS(quantile(x, kNaN), ValueError);
  CHECK_THROWS_AS(quantile(x, zeros({1}, kF64)), DTypeError);
  CHECK_THROWS_AS(quantile(x, zeros({1, 1})), ShapeError);
  CHECK_THROWS_AS(quantile(zeros({2}, kI64), 0.5), DTypeError);
  CHECK_THROWS_AS(cummax(x, 2), IndexError);
}
