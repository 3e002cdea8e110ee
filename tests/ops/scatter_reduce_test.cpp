// scatter_reduce against the definition, element by element.
#include "lathe/ops/scatter_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare.h"
#include "lathe/core/debug/detect_anomaly.h"
#include "lathe/tests/threads_scope.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;
using Values = std::vector<double>;
using R = ScatterReduction;
constexpr R kAll[] = {R::kSum, R::kProd, R::kMean, R::kAmax, R::kAmin};

double reduced(R how, const Values& values) {
  double y = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    const double v = values[i];
    if (how == R::kProd) y *= v;
    if (how == R::kSum || how == R::kMean) y += v;
    if (how == R::kAmax) y = std::max(y, v);
    if (how == R::kAmin) y = std::min(y, v);
  }
  return how == R::kMean ? y / static_cast<double>(values.size()) : y;
}

/// The definition: lists of what goes to each position, then their reductions.
Values by_definition(const Tensor& x, int dim, const Tensor& index, const Tensor& source, R how,
                     bool include_self) {
  const Values own = x.to_vector<double>(), values = source.to_vector<double>();
  const auto at = index.to_vector<int64_t>();
  const Strides to = contiguous_strides(x.shape()), from = contiguous_strides(source.shape());
  std::vector<Values> lists(own.size());
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t rest = i, place = 0, read = 0;
    for (int d = index.ndim() - 1; d >= 0; --d) {
      const int64_t c = rest % index.shape()[d];
      rest /= index.shape()[d];
      place += (d == dim ? at[static_cast<size_t>(i)] : c) * to[d];
      read += c * from[d];
    }
    lists[static_cast<size_t>(place)].push_back(values[static_cast<size_t>(read)]);
  }
  Values out;
  for (size_t i = 0; i < own.size(); ++i) {
    Values list = lists[i];
    if (include_self || list.empty()) list.insert(list.begin(), own[i]);
    out.push_back(reduced(how, list));
  }
  return out;
}

struct Case {
  Shape x;
  int64_t dim;
  Shape index;
};
const Case kCases[] = {
    {{4, 3}, 0, {4, 3}},
    {{4, 3}, 1, {2, 5}},
    {{2, 3, 4}, 1, {2, 7, 3}},
    {{2, 3, 4}, -1, {1, 3, 9}},
    {{5}, 0, {8}},
    {{5}, 0, {0}},
    {{}, 0, {}},
    {{0, 3}, 1, {0, 2}},
};

}  // namespace

TEST_CASE("scatter_reduce: the definition, in every layout and dtype, on every device") {
  manual_seed(21);
  for (const Case& c : kCases) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16, kI64, kU8}) {
      const Tensor host = randint(1, 4, c.x).to(dtype);  // products stay exact
      const int dim = wrap_dim("test", c.dim, host.ndim());
      const int64_t size = host.ndim() == 0 ? 1 : std::max<int64_t>(host.dim(dim), 1);
      const Tensor index = randint(0, size, c.index);
      Shape larger = c.index;
      for (int64_t& s : larger) ++s;  // what lies beyond index is not read
      const Tensor source = randint(1, 4, larger).to(dtype);
      for (const R how : kAll) {
        for (const bool include_self : {true, false}) {
          Values want = by_definition(host, dim, index, source, how, include_self);
          if (!is_floating(dtype)) {
            for (double& w : want) w = std::floor(w);
          }
          for (const Device device : devices()) {
            for (const Layout& layout : layouts()) {
              CAPTURE(concat(static_cast<int>(how), " ", include_self, " ", host, " ", layout.name,
                             " on ", device));
              const Tensor y = scatter_reduce(
                  layout.apply(host).to(device), c.dim, layout.apply(index).to(device),
                  layout.apply(source).to(device), how, {.include_self = include_self});
              CHECK(y.shape() == c.x);
              CHECK(y.dtype() == dtype);
              CHECK(difference(y.cpu(), want, tolerance_of(dtype)) == "");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("scatter_reduce: x stays as it is, and the bits with and without a gradient are equal") {
  manual_seed(22);
  const Tensor x = randn({6, 700}), source = randn({900, 700}), before = x.clone();
  const Tensor index = randint(0, 6, {900, 700}), leaf = x.clone().requires_grad_();
  for (const R how : kAll) {
    const Tensor y = scatter_reduce(x, 0, index, source, how);
    CHECK(difference(scatter_reduce(leaf, 0, index, source, how).detach(), y, 0) == "");
    {
      const debug::DetectAnomaly watched;
      CHECK(difference(scatter_reduce(x, 0, index, source, how), y, 0) == "");
    }
    const ThreadsScope one(1);
    CHECK(difference(scatter_reduce(x, 0, index, source, how), y, 0) == "");
  }
  CHECK(difference(x, before, 0) == "");
}

TEST_CASE("scatter_reduce: NaN, infinities and the ends of integers") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Device device : devices()) {
    CAPTURE(device);
    const Tensor x = tensor({1.0, -kInf, kInf, 2.0}, kF64).to(device);
    const Tensor index = tensor({0, 0, 1, 2, 3, 3}).to(device);
    const Tensor source = tensor({kNan, 5.0, -kInf, kInf, 1.0, 3.0}, kF64).to(device);
    const auto of = [&](R how, bool include_self) {
      return scatter_reduce(x, 0, index, source, how, {.include_self = include_self}).cpu();
    };
    CHECK(difference(of(R::kAmax, true), {kNan, -kInf, kInf, 3}, 0) == "");
    CHECK(difference(of(R::kAmin, true), {kNan, -kInf, kInf, 1}, 0) == "");
    CHECK(difference(of(R::kAmax, false), {kNan, -kInf, kInf, 3}, 0) == "");
    CHECK(difference(of(R::kAmin, false), {kNan, -kInf, kInf, 1}, 0) == "");
    CHECK(difference(of(R::kProd, false), {kNan, -kInf, kInf, 3}, 0) == "");
    const Tensor ends = tensor({-128, 127}).to(kI8).to(device), at = tensor({0, 1}).to(device);
    const Tensor same = scatter_reduce(ends, 0, at, ends, R::kAmax, {.include_self = false});
    CHECK(difference(same.cpu(), {-128, 127}, 0) == "");
    // The mean of -1 and -2 is rounded down; a sum beyond i8 is not lost on the way.
    const Tensor numbers = tensor({-1, 100}).to(kI8).to(device);
    const Tensor more = tensor({-2, 100}).to(kI8).to(device);
    CHECK(difference(scatter_reduce(numbers, 0, at, more, R::kMean).cpu(), {-2, 100}, 0) == "");
  }
}

TEST_CASE("scatter_reduce: equal extremes share the gradient, zeros of a product get theirs") {
  const Tensor x = tensor({2.0, 7.0, 2.0}, kF64).requires_grad_();
  const Tensor source = tensor({2.0, 2.0, 1.0, 3.0}, kF64).requires_grad_();
  const Tensor index = tensor({0, 0, 0, 2}), dy = tensor({6.0, 1.0, 1.0}, kF64);
  scatter_reduce(x, 0, index, source, R::kAmax).backward(dy);
  CHECK(difference(x.grad(), {2, 1, 0}, 0) == "");
  CHECK(difference(source.grad(), {2, 2, 0, 1}, 0) == "");
  x.set_grad({}), source.set_grad({});
  scatter_reduce(x, 0, index, source, R::kAmax, {.include_self = false}).backward(dy);
  CHECK(difference(x.grad(), {0, 1, 0}, 0) == "");
  CHECK(difference(source.grad(), {3, 3, 0, 1}, 0) == "");

  const Tensor a = tensor({2.0, 0.0, 5.0}, kF64).requires_grad_();
  const Tensor b = tensor({0.0, 3.0, 4.0, 0.0}, kF64).requires_grad_();
  scatter_reduce(a, 0, tensor({0, 0, 1, 1}), b, R::kProd).backward(tensor({1.0, 1.0, 1.0}, kF64));
  CHECK(difference(a.grad(), {0, 0, 1}, 0) == "");
  CHECK(difference(b.grad(), {6, 0, 0, 0}, 0) == "");
}

TEST_CASE("scatter_reduce: an infinity among factors leaves the gradients of other ones alone") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Device device : devices()) {
    CAPTURE(device);
    const auto grad = [&](const Tensor& index, const Values& values) {
      const Tensor source = tensor(values, kF64).to(device).detach().requires_grad_();
      const Tensor x = ones({2}, {.dtype = kF64, .device = device});
      scatter_reduce(x, 0, index.to(device), source, R::kProd).sum().backward();
      return source.grad().cpu();
    };
    CHECK(difference(grad(tensor({0, 1}), {kInf, 2}), {1, 1}, 0) == "");
    CHECK(difference(grad(tensor({1, 0, 1}), {2, kInf, 3}), {3, 1, 2}, 0) == "");
    CHECK(difference(grad(tensor({0, 0, 0, 1}), {kInf, 2, 3, 5}), {6, kInf, kInf, 1}, 0) == "");
  }
}

TEST_CASE("scatter_reduce: with an empty index source gets a gradient of zeros") {
  for (const R how : kAll) {
    const Tensor x = ones({3}).requires_grad_(), source = ones({2}).requires_grad_();
    scatter_reduce(x.detach(), 0, zeros({0}, kI64), source, how).sum().backward();
    CHECK(difference(source.grad(), {0, 0}, 0) == "");
    scatter_reduce(x, 0, zeros({0}, kI64), source.detach(), how).sum().backward();
    CHECK(difference(x.grad(), {1, 1, 1}, 0) == "");
  }
}

TEST_CASE("scatter_reduce: gradients agree with finite differences, twice") {
  manual_seed(23);
  // Far enough from each other that no step changes which is the largest.
  const auto apart = [](const Shape& shape, double first) {
    return reshape(randperm(numel_of(shape)).to(kF64) * 0.25 + first, shape);
  };
  const Tensor index = tensor({{0, 2, 2, 1}, {2, 2, 0, 1}, {2, 0, 0, 2}});
  const Tensor x = apart({3, 4}, -1.5), source = apart({3, 4}, -1.4);
  for (const bool include_self : {true, false}) {
    const ScatterReduceOptions o{include_self};
    const auto at = [&](In in) { return beside(in, index); };
    // clang-format off
    const GradientCase cases[] = {
        {"scatter_reduce sum", [&](In in) { return scatter_reduce(in[0], 0, at(in), in[1], R::kSum, o); }, {x, source}},
        {"scatter_reduce prod", [&](In in) { return scatter_reduce(in[0], 0, at(in), in[1], R::kProd, o); }, {x, source}},
        {"scatter_reduce mean", [&](In in) { return scatter_reduce(in[0], 0, at(in), in[1], R::kMean, o); }, {x, source}},
    };
    // clang-format on
    for (const GradientCase& c : cases) check_gradients(c);
    // Expanded inputs are equal, which is a kink of extremes; the sums to them are not.
    for (const R how : {R::kAmax, R::kAmin}) {
      const Function f = [&](In in) { return scatter_reduce(in[0], 0, at(in), in[1], how, o); };
      const GradientCase c{"scatter_reduce extreme", f, {x, source}};
      for (const Layout& layout : layouts()) {
        check_differences(c, layout.name, f, {layout.apply(x), layout.apply(source)});
      }
      if (cuda_is_available()) check_device(c);
    }
  }
}

TEST_CASE("scatter_reduce: errors name the op and the values") {
  const Tensor x = zeros({2, 3}), index = zeros({2, 3}, kI64);
  const auto of = [](const Tensor& t, int64_t dim, const Tensor& at, const Tensor& source) {
    return scatter_reduce(t, dim, at, source, R::kAmax);
  };
  CHECK_THROWS_WITH_AS(of(x, 1, full({2, 1}, 3), ones({2, 1})),
                       Contains("scatter_reduce: index 3 at [0,0] is outside [0, 3)"), IndexError);
  CHECK_THROWS_AS(of(x, 2, index, x), IndexError);
  CHECK_THROWS_WITH_AS(of(x, 1, zeros({3, 1}, kI64), x),
                       Contains("scatter_reduce: index must have x's number of dimensions"),
                       ShapeError);
  CHECK_THROWS_AS(of(x, 1, zeros({2}, kI64), x), ShapeError);
  CHECK_THROWS_WITH_AS(of(x, 1, index, ones({2, 2})),
                       Contains("scatter_reduce: source is smaller than index"), ShapeError);
  CHECK_THROWS_WITH_AS(of(x, 1, index, ones({2, 3}, kF64)), Contains("source must have x's dtype"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(of(x, 1, x, x), Contains("index must be i64 or i32"), DTypeError);
  CHECK_THROWS_WITH_AS(of(x > 0, 1, index, x > 0), Contains("not defined for bool"), DTypeError);
}
