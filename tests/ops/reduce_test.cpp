// Reductions against a direct f64 computation: values in every layout and dtype, edge cases,
// gradients, errors.
#include "lathe/ops/reduce.h"

#include <algorithm>
#include <limits>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/half.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

// PyTorch's x.norm(1) is the sum of absolute values, not the norm along dimension 1.
template <class... Arguments>
constexpr bool kHasNorm = requires(const Tensor& x, Arguments... a) {
  x.norm(a...);
};
template <class... Arguments>
constexpr bool kHasFreeNorm = requires(const Tensor& x, Arguments... a) {
  norm(x, a...);
};
static_assert(kHasNorm<Dims> && kHasNorm<Dims, ReduceOptions> && kHasNorm<Dims, bool>);
static_assert(kHasFreeNorm<Dims> && kHasFreeNorm<Dims, ReduceOptions> && kHasFreeNorm<Dims, bool>);
static_assert(!kHasNorm<int> && !kHasNorm<int64_t> && !kHasNorm<int, bool>);
static_assert(!kHasFreeNorm<int> && !kHasFreeNorm<int64_t> && !kHasFreeNorm<int, bool>);

struct Case {
  Shape x;
  Dims dims;  // empty: all
};
const Case kCases[] = {
    {{3, 4}, {}},
    {{3, 4}, {0}},
    {{3, 4}, {-1}},
    {{2, 3, 4, 5}, {0, 2, 3}},  // per channel of NCHW
    {{2, 3, 4, 5}, {1}},
    {{2, 3, 4, 5}, {1, 3}},
    {{2, 1, 4, 1}, {1, 2}},   // dimensions of size 1, reduced and kept
    {{5000}, {}},             // several blocks
    {{7, 1500}, {1}},         // rows longer than a block
    {{300, 11}, {0}},         // several blocks of rows
    {{5, 300}, {0}},          // more columns than a tile
    {{2, 70, 3, 5}, {0, 1}},  // rows from two dimensions
    {{70000, 3}, {0}},        // several chunks
    {{2, 70000}, {1}},
    {{}, {}},
    {{1}, {0}},
    {{0, 3}, {0}},  // of nothing
    {{3, 0}, {0}},  // no results
};

using Values = std::vector<double>;

/// What is reduced into each result, in order.
std::vector<Values> groups(const Tensor& x, const Dims& dims) {
  const uint32_t mask = dim_mask("test", dims, x.ndim());
  Shape kept = x.shape();
  for (int d = 0; d < x.ndim(); ++d) {
    if (mask >> d & 1u) kept[d] = 1;
  }
  const Strides strides = contiguous_strides(kept);
  std::vector<Values> result(static_cast<size_t>(numel_of(kept)));
  const Values values = x.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0;
    for (int d = x.ndim() - 1; d >= 0; --d) {
      if (kept[d] != 1) at += rest % x.shape()[d] * strides[d];
      rest /= x.shape()[d];
    }
    result[static_cast<size_t>(at)].push_back(values[i]);
  }
  return result;
}

double add_up(const Values& v) {
  double s = 0;
  for (const double e : v) s += e;
  return s;
}
double variance(const Values& v, double correction) {
  const double n = static_cast<double>(v.size()), m = add_up(v) / n;
  double s = 0;
  for (const double e : v) s += (e - m) * (e - m);
  return s / std::max(n - correction, 0.0);
}

struct Op {
  std::string name;
  Tensor (*f)(const Tensor&, const Dims&, bool keepdim);
  double (*reference)(const Values&);
  bool needs_elements = false;
};
const Op kOps[] = {
    {"sum", [](const Tensor& x, const Dims& d, bool k) { return sum(x, d, {k}); }, add_up},
    {"mean", [](const Tensor& x, const Dims& d, bool k) { return mean(x, d, {k}); },
     [](const Values& v) { return add_up(v) / static_cast<double>(v.size()); }},
    {"prod", [](const Tensor& x, const Dims& d, bool k) { return prod(x, d, {k}); },
     [](const Values& v) {
       double p = 1;
       for (const double e : v) p *= e;
       return p;
     }},
    {"amax", [](const Tensor& x, const Dims& d, bool k) { return amax(x, d, {k}); },
     [](const Values& v) { return *std::max_element(v.begin(), v.end()); }, true},
    {"amin", [](const Tensor& x, const Dims& d, bool k) { return amin(x, d, {k}); },
     [](const Values& v) { return *std::min_element(v.begin(), v.end()); }, true},
    {"all", [](const Tensor& x, const Dims& d, bool k) { return all(x, d, {k}); },
     [](const Values& v) {
       return std::all_of(v.begin(), v.end(), [](double e) { return e != 0; }) ? 1.0 : 0.0;
     }},
    {"any", [](const Tensor& x, const Dims& d, bool k) { return any(x, d, {k}); },
     [](const Values& v) {
       return std::any_of(v.begin(), v.end(), [](double e) { return e != 0; }) ? 1.0 : 0.0;
     }},
    {"var", [](const Tensor& x, const Dims& d, bool k) { return var(x, d, {.keepdim = k}); },
     [](const Values& v) { return variance(v, 1); }},
    {"var biased",
     [](const Tensor& x, const Dims& d, bool k) {
       return var(x, d, {.unbiased = false, .keepdim = k});
     },
     [](const Values& v) { return variance(v, 0); }},
    {"std", [](const Tensor& x, const Dims& d, bool k) { return lathe::std(x, d, {.keepdim = k}); },
     [](const Values& v) { return std::sqrt(variance(v, 1)); }},
    {"norm", [](const Tensor& x, const Dims& d, bool k) { return norm(x, d, {k}); },
     [](const Values& v) {
       double s = 0;
       for (const double e : v) s += e * e;
       return std::sqrt(s);
     }},
    {"logsumexp", [](const Tensor& x, const Dims& d, bool k) { return logsumexp(x, d, {k}); },
     [](const Values& v) {
       double m = -kInf, s = 0;
       for (const double e : v) m = std::max(m, e);
       for (const double e : v) s += std::exp(e - m);
       return v.empty() ? -kInf : m + std::log(s);
     }},
};

void compare(const Op& op, const Case& c, const Tensor& x, const std::string& what) {
  const std::vector<Values> parts = groups(x, c.dims);
  if (op.needs_elements && !parts.empty() && parts[0].empty()) {
    CHECK_THROWS_AS(op.f(x, c.dims, false), ShapeError);
    return;
  }
  Values want;
  for (const Values& part : parts) want.push_back(op.reference(part));
  const Tensor y = op.f(x, c.dims, false), kept = op.f(x, c.dims, true);
  const std::string wrong = difference(y, want, tolerance_of(x.dtype()));
  CHECK_MESSAGE(wrong.empty(), op.name, " of ", concat(x, " over ", c.dims), " (", what,
                "): ", wrong);
  CHECK(kept.ndim() == x.ndim());
  CHECK(difference(kept, y.to_vector<double>(), 0).empty());
}

}  // namespace

TEST_CASE("reduce: values agree with the definition in every layout and dtype") {
  manual_seed(1);
  for (const Case& c : kCases) {
    const Tensor wide = randn(c.x, {.dtype = kF64});
    for (const Op& op : kOps) {
      for (const Layout& layout : layouts()) compare(op, c, layout.apply(wide), layout.name);
      for (const DType dtype : {kF32, kF16, kBF16}) compare(op, c, wide.to(dtype), "contiguous");
      compare(op, c, wide.to(kF16).transpose(0, -1).contiguous().transpose(0, -1),
              "f16 transposed");
    }
  }
}

TEST_CASE("reduce: an expanded input counts each element as often as it appears") {
  const Tensor x = randn({3, 1, 4}, {.dtype = kF64}).expand({3, 5, 4});
  for (const Op& op : kOps) {
    for (const Dims& dims : {Dims{}, Dims{1}, Dims{0, 2}})
      compare(op, {x.shape(), dims}, x, "expanded");
  }
}

TEST_CASE("reduce: a permuted NHWC tensor is reduced per channel") {
  const Tensor x = randn({3, 20, 6, 7}, {.dtype = kF64}).contiguous(kChannelsLast);
  for (const Op& op : kOps) {
    for (const Dims& dims : {Dims{0, 2, 3}, Dims{2, 3}, Dims{1}})
      compare(op, {x.shape(), dims}, x, "NHWC");
  }
}

TEST_CASE("reduce: integers and bool") {
  const Tensor x = randint(-9, 10, {4, 700}, {.dtype = kI32});
  for (const char* name : {"sum", "prod", "amax", "amin", "all", "any"}) {
    for (const Op& op : kOps) {
      if (std::string(op.name) != name) continue;
      for (const DType dtype : {kI8, kI16, kI32, kI64}) {
        compare(op, {x.shape(), {0}}, x.to(dtype), "integers");
        if (std::string(name) != "prod") compare(op, {x.shape(), {1}}, x.to(dtype), "integers");
      }
      compare(op, {x.shape(), {1}}, x.to(kBool), "bool");
      compare(op, {x.shape(), {0}}, abs(x).to(kU8), "u8");
    }
  }
  CHECK(sum(x).dtype() == kI64);
  CHECK(sum(x.to(kBool)).dtype() == kI64);
  CHECK(prod(x.to(kU8)).dtype() == kI64);
  CHECK(amax(x).dtype() == kI32);
  CHECK(all(x).dtype() == kBool);
  CHECK(sum(full({3}, INT64_MAX)).item<int64_t>() == INT64_MAX - 2);  // wraps around
}

TEST_CASE("reduce: nothing, one thing") {
  CHECK(sum(zeros({0})).item<float>() == 0);
  CHECK(prod(zeros({0})).item<float>() == 1);
  CHECK(std::isnan(mean(zeros({0})).item<float>()));
  CHECK(std::isnan(var(zeros({0})).item<float>()));
  CHECK(std::isnan(var(ones({1})).item<float>()));
  CHECK(var(ones({1}), {}, {.unbiased = false}).item<float>() == 0);
  CHECK(norm(zeros({0})).item<float>() == 0);
  CHECK(logsumexp(zeros({0})).item<double>() == -kInf);
  CHECK(all(zeros({0})).item<bool>());
  CHECK_FALSE(any(zeros({0})).item<bool>());
  CHECK(sum(full({}, 2.5)).item<float>() == 2.5);
  CHECK(sum(full({}, 2.5), {-1}).ndim() == 0);
}

TEST_CASE("reduce: NaN and infinities") {
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    for (const int64_t n : {5, 200, 3000}) {
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        const Tensor x = ones({n}, {.dtype = dtype});
        x.select(0, at).fill_(kNan);
        for (const Tensor& y :
             {amax(x), amin(x), max(x), min(x), sum(x), norm(x), logsumexp(x), var(x)}) {
          CHECK(std::isnan(y.item<double>()));
        }
        const Tensor rows = x.view({n, 1}).expand({n, 3}).contiguous();
        for (const Tensor& y : {amax(rows, {0}), amin(rows, {0})})
          CHECK(std::isnan(y[2].item<double>()));
        CHECK(all(x).item<bool>());  // NaN is not 0
        x.select(0, at).fill_(-kInf);
        CHECK(amin(x).item<double>() == -kInf);
        CHECK(amax(x).item<double>() == 1);
      }
    }
  }
  CHECK(logsumexp(tensor({-kInf, -kInf})).item<double>() == -kInf);
  CHECK(logsumexp(tensor({-kInf, kInf, 1.0}, kF64)).item<double>() == kInf);
  CHECK(logsumexp(tensor({-kInf, 2.0}, kF64)).item<double>() == 2);
  CHECK(logsumexp(tensor({1000.f, 1000.f})).item<double>() ==
        doctest::Approx(1000 + std::log(2.0)));
}

TEST_CASE("reduce: sums keep their digits") {
  const Tensor many = ones({1 << 24});
  CHECK(sum(many).item<float>() == 16777216.0f);
  CHECK(sum(ones({1 << 17}, {.dtype = kF16})).item<float>() ==
        std::numeric_limits<float>::infinity());
  CHECK(mean(ones({1 << 17}, {.dtype = kF16})).item<float>() == 1);  // accumulated in float
  CHECK(sum(full({40000, 2}, 1, {.dtype = kF16}), {0})[0].item<float>() == 40000);
  CHECK(mean(many.view({-1, 8}), {0})[3].item<float>() == 1);
  // f32: 0.1f is 0.1 + 1.49e-9, and a blocked sum adds a few roundings to that.
  const double sum32 = sum(full({10'000'000}, 0.1)).item<double>();
  CHECK(std::fabs(sum32 - 1e7 * static_cast<double>(0.1f)) < 1.0);
  // The variance of values far from 0, where E[x^2] - E[x]^2 has no digits left.
  const Tensor far = randn({4096, 3}, {.dtype = kF64}) + 1e4;
  const Tensor near = var(far.to(kF32), {0}), exact = var(far, {0});
  CHECK(difference(near, exact, 1e-3).empty());
  CHECK(norm(full({4}, 1e30)).item<float>() == 2e30f);
}

TEST_CASE("reduce: the number of threads changes no bit") {
  const Tensor x = randn({301, 70, 17});
  const int before = num_threads();
  for (const Op& op : kOps) {
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{2}, Dims{0, 2}, Dims{1}}) {
      set_num_threads(1);
      const Tensor alone = op.f(x, dims, false);
      set_num_threads(4);
      CHECK(difference(op.f(x, dims, false), alone, 0).empty());
    }
  }
  set_num_threads(before);
}

TEST_CASE("sum_to_shape: adds over what broadcasting added") {
  const Tensor g = f64({2, 3, 4});
  for (const Shape& shape :
       {Shape{2, 3, 4}, Shape{3, 4}, Shape{4}, Shape{}, Shape{3, 1}, Shape{2, 1, 4}, Shape{1, 1}}) {
    const Tensor y = sum_to_shape(g, shape);
    CHECK(y.shape() == shape);
    Tensor want = g;
    while (want.ndim() > shape.size()) want = sum(want, {0});
    for (int d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) want = sum(want, {d}, {.keepdim = true});
    }
    CHECK(difference(y, want, 1e-12).empty());
  }
  CHECK(sum_to_shape(g, g.shape()).is_same(g));
  CHECK_THROWS_WITH_AS(
      sum_to_shape(g, {2, 4}),
      doctest::Contains("[2,4] does not broadcast to g's shape (g: f64[2,3,4]@cpu)"), ShapeError);
  CHECK_THROWS_AS(sum_to_shape(g, {1, 2, 3, 4}), ShapeError);
  const Autocast half(kCPU, kF16);
  CHECK(sum_to_shape(g.to(kF16), {4}).dtype() == kF16);  // a gradient keeps its dtype
  CHECK(sum(g.to(kF16)).dtype() == kF32);
}

TEST_CASE("reduce: gradients agree with finite differences") {
  const Tensor x = f64({2, 3, 4});
  const GradientCase cases[] = {
      {"sum",
       [](const Tensors& in) {
         return sum(in[0], {0, 2});
       },
       {x}},
      {"sum all", [](const Tensors& in) { return sum(in[0]); }, {x}},
      {"sum_to_shape",
       [](const Tensors& in) {
         return sum_to_shape(in[0], {3, 1});
       },
       {x}},
      {"mean", [](const Tensors& in) { return mean(in[0], {1}, {.keepdim = true}); }, {x}},
      {"amax",
       [](const Tensors& in) {
         return amax(in[0], {0, 1});
       },
       {x}},
      {"amin", [](const Tensors& in) { return amin(in[0], {2}); }, {x}},
      {"max", [](const Tensors& in) { return max(in[0]); }, {x}},
      {"prod", [](const Tensors& in) { return prod(in[0], {1}); }, {x}},
      {"prod all", [](const Tensors& in) { return prod(in[0]); }, {f64_in({7}, 0.5, 1.5)}},
      {"prod of zeros",
       [](const Tensors& in) { return prod(in[0], {1}); },
       {tensor({{1.5, 0.0, 2.0, -1.0, 0.5}, {0.0, 3.0, 0.0, 1.0, 2.0}, {0.5, 1.0, 2.0, 3.0, 1.0}},
               kF64)}},
      {"var", [](const Tensors& in) { return var(in[0], {1}); }, {x}},
      {"var biased",
       [](const Tensors& in) {
         return var(in[0], {0, 2}, {.unbiased = false});
       },
       {x}},
      {"std", [](const Tensors& in) { return lathe::std(in[0], {2}, {.keepdim = true}); }, {x}},
      {"norm", [](const Tensors& in) { return norm(in[0], {1}); }, {x}},
      {"logsumexp",
       [](const Tensors& in) {
         return logsumexp(in[0], {0, 2});
       },
       {x}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("var, std: any correction") {
  // x = torch.tensor([1., 2., 4.], dtype=torch.float64, requires_grad=True)
  // y = torch.var(x, 0, correction=c); y.backward(); c from 0 on; -1 by hand
  const Values vars{14. / 9, 7. / 3, 14. / 3, kInf},
      devs{1.247219128924647, 1.5275252316519465, 2.1602468994692865, kInf};
  const std::vector<Values> slopes{
      {-8. / 9, -2. / 9, 10. / 9}, {-4. / 3, -1. / 3, 5. / 3}, {-8. / 3, -2. / 3, 10. / 3}};
  for (int64_t c = 0; c < 4; ++c) {
    CAPTURE(c);
    const auto i = static_cast<size_t>(c);
    const Tensor x = tensor({1.0, 2.0, 4.0}, kF64).requires_grad_(),
                 y = var(x, {0}, {.correction = c});
    CHECK(difference(y, {vars[i]}, 1e-15) == "");
    CHECK(difference(lathe::std(x, {0}, {.unbiased = false, .correction = c}), {devs[i]}, 1e-15) ==
          "");
    if (c == 3) continue;
    y.backward();
    CHECK(difference(x.grad(), slopes[i], 1e-14) == "");
  }
  CHECK(difference(var(tensor({1.0, 2.0, 4.0}, kF64), {0}, {.correction = -1}), {14. / 12},
                   1e-15) == "");
  CHECK(var(tensor({1.0, 2.0}, kF64), {0}, {.correction = 5}).item<double>() == kInf);
  CHECK(std::isnan(var(ones({2}), {0}, {.correction = 2}).item<double>()));
  check_gradients(
      {"var", [](const Tensors& in) { return var(in[0], {1}, {.correction = 2}); }, {f64({2, 4})}});
  check_gradients({"std",
                   [](const Tensors& in) {
                     return lathe::std(in[0], {0, 1}, {.keepdim = true, .correction = -2});
                   },
                   {f64({2, 4})}});
}

TEST_CASE("reduce: gradients where the derivative is a convention") {
  const auto gradient = [](const Tensor& x, auto f) {
    x.requires_grad_();
    sum(f(x)).backward();
    return x.grad();
  };
  CHECK(difference(
            gradient(tensor({1.0, 3.0, 3.0, 0.0}, kF64), [](const Tensor& x) { return amax(x); }),
            {0, 0.5, 0.5, 0}, 0)
            .empty());
  CHECK(difference(
            gradient(tensor({1.0, 3.0, 1.0, 1.0}, kF64), [](const Tensor& x) { return min(x); }),
            {1. / 3, 0, 1. / 3, 1. / 3}, 1e-15)
            .empty());
  CHECK(difference(gradient(zeros({3}), [](const Tensor& x) { return norm(x); }), {0, 0, 0}, 0)
            .empty());
  CHECK(difference(gradient(ones({3}), [](const Tensor& x) { return lathe::std(x); }), {0, 0, 0}, 0)
            .empty());
  CHECK(difference(gradient(tensor({-kInf, -kInf}), [](const Tensor& x) { return logsumexp(x); }),
                   {0, 0}, 0)
            .empty());
  CHECK(difference(gradient(full({2, 0}, 1.0), [](const Tensor& x) { return sum(x, {1}); }),
                   Values{}, 0)
            .empty());
}

TEST_CASE("reduce: more ties than f16 can count share the gradient too") {
  const Tensor x = ones({70000}, {.dtype = kF16, .requires_grad = true});
  max(x).backward();
  CHECK(x.grad().dtype() == kF16);
  CHECK(x.grad().to_vector<float>() == std::vector<float>(70000, float(Half(1 / 70000.f))));
}

TEST_CASE("reduce: Autocast between forward and backward does not change a gradient's dtype") {
  const Tensor x = randn({4}, {.dtype = kF16, .requires_grad = true});
  for (const Tensor& y :
       {logsumexp(x), sum(x), mean(x), prod(x), amax(x), var(x), lathe::std(x), norm(x)}) {
    const Autocast half(kCPU, kBF16);
    x.set_grad({});
    y.backward();
    CHECK(x.grad().dtype() == kF16);
  }
}

TEST_CASE("reduce: errors name the op and the values") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(sum(x, {2}), doctest::Contains("sum: "), IndexError);
  CHECK_THROWS_AS(sum(x, {0, 0}), IndexError);
  CHECK_THROWS_AS(sum(x, {1, -1}), IndexError);
  CHECK_THROWS_WITH_AS(mean(x.to(kI64)),
                       doctest::Contains("mean: expected a floating dtype (x: i64[2,3]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(var(x.to(kI64)), DTypeError);
  CHECK_THROWS_WITH_AS(
      amax(zeros({2, 0}), {1}),
      doctest::Contains("amax: a reduced dimension has no elements (x: f32[2,0]@cpu)"), ShapeError);
  CHECK_THROWS_AS(max(zeros({0})), ShapeError);
  CHECK(amax(zeros({0, 3}), {1}).shape() == Shape{0});
}
