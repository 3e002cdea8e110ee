// Values of the elementwise ops: formulas, NaN and infinities, promotion, broadcasting, layouts,
// errors.
#include <cmath>
#include <limits>

#include "compare.h"
#include "lathe/core/half.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct UnaryCase {
  std::string op;
  Tensor (*f)(const Tensor&);
  double (*reference)(double);
};
Tensor leaky(const Tensor& x) { return leaky_relu(x, 0.25); }
Tensor elu2(const Tensor& x) { return elu(x, 2.0); }
Tensor exact_gelu(const Tensor& x) { return gelu(x); }
Tensor clamp2(const Tensor& x) { return clamp(x, -0.5, 0.75); }
Tensor softplus1(const Tensor& x) { return softplus(x); }

// clang-format off
const UnaryCase kCases[] = {
    {"neg", neg, [](double x) { return -x; }},
    {"abs", abs, [](double x) { return std::fabs(x); }},
    {"square", square, [](double x) { return x * x; }},
    {"sign", sign, [](double x) { return (x > 0) - (x < 0) + 0.0; }},
    {"floor", floor, [](double x) { return std::floor(x); }},
    {"ceil", ceil, [](double x) { return std::ceil(x); }},
    {"round", round, [](double x) { return std::nearbyint(x); }},
    {"trunc", trunc, [](double x) { return std::trunc(x); }},
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"expm1", expm1, [](double x) { return std::expm1(x); }},
    {"log", log, [](double x) { return std::log(x); }},
    {"log1p", log1p, [](double x) { return std::log1p(x); }},
    {"log2", log2, [](double x) { return std::log2(x); }},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {"reciprocal", reciprocal, [](double x) { return 1 / x; }},
    {"sin", sin, [](double x) { return std::sin(x); }},
    {"cos", cos, [](double x) { return std::cos(x); }},
    {"log10", log10, [](double x) { return std::log10(x); }},
    {"exp2", exp2, [](double x) { return std::exp2(x); }},
    {"tan", tan, [](double x) { return std::tan(x); }},
    {"asin", asin, [](double x) { return std::asin(x); }},
    {"acos", acos, [](double x) { return std::acos(x); }},
    {"atan", atan, [](double x) { return std::atan(x); }},
    {"sinh", sinh, [](double x) { return std::sinh(x); }},
    {"cosh", cosh, [](double x) { return std::cosh(x); }},
    {"asinh", asinh, [](double x) { return std::asinh(x); }},
    {"acosh", acosh, [](double x) { return std::acosh(x); }},
    {"atanh", atanh, [](double x) { return std::atanh(x); }},
    {"frac", frac, [](double x) { return x - std::trunc(x); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"erf", erf, [](double x) { return std::erf(x); }},
    {"relu", relu, [](double x) { return std::isnan(x) ? x : std::fmax(x, 0); }},
    {"leaky_relu", leaky, [](double x) { return x > 0 ? x : 0.25 * x; }},
    {"elu", elu2, [](double x) { return x > 0 ? x : 2 * std::expm1(x); }},
    {"gelu", exact_gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {"softplus", softplus1, [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
    {"clamp", clamp2, [](double x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, -0.5), 0.75); }},
};
// clang-format on

/// The same values, no two side by side: no kernel takes them for a dense row.
Tensor gapped(const Tensor& t) {
  const Tensor apart = zeros({t.numel(), 2}, {.dtype = t.dtype()}).select(1, 0);
  apart.copy_(t);
  return apart;
}

std::vector<double> mapped(const Tensor& x, double (*f)(double)) {
  std::vector<double> out = x.to_vector<double>();
  for (double& v : out) v = f(v);
  return out;
}

}  // namespace

TEST_CASE("unary ops: equal the formula for every floating dtype and layout") {
  for (const UnaryCase& c : kCases) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor x = (randn({5, 7}, {.dtype = kF64}) * 2.0).to(dtype);
      for (const Layout& layout : layouts()) {
        const std::string text =
            difference(c.f(layout.apply(x)), mapped(x, c.reference), tolerance_of(dtype));
        CHECK_MESSAGE(text.empty(), c.op, " ", layout.name, ": ", text);
      }
    }
    CHECK(c.f(zeros({0, 3})).shape() == Shape{0, 3});
    CHECK(c.f(full({}, 0.25)).ndim() == 0);
  }
}

TEST_CASE("unary ops: NaN stays NaN everywhere; the sign of NaN is 0") {
  for (const UnaryCase& c : kCases) {
    const double y = c.f(tensor(kNaN)).item<double>();
    CHECK_MESSAGE((c.op == "sign" ? y == 0 : std::isnan(y)), c.op);
  }
}

TEST_CASE("unary ops: extremes do not overflow on the way") {
  const Tensor x = tensor({-1000.0, 1000.0, -kInf, kInf}, kF64);
  CHECK(difference(sigmoid(x), {0, 1, 0, 1}, 0).empty());
  CHECK(difference(tanh(x), {-1, 1, -1, 1}, 0).empty());
  CHECK(difference(softplus(x), {0, 1000, 0, kInf}, 0).empty());
  CHECK(difference(isnan(tensor({kNaN, kInf, 1.0}, kF64)), {1, 0, 0}, 0).empty());
  CHECK(difference(isinf(tensor({kNaN, -kInf, 1.0}, kF64)), {0, 1, 0}, 0).empty());
  CHECK(difference(isfinite(tensor({kNaN, -kInf, 1.0}, kF64)), {0, 0, 1}, 0).empty());
}

TEST_CASE("unary ops: integers keep their dtype or become the default one") {
  const Tensor i = tensor({-2, 0, 3}, kI32);
  CHECK(abs(i).dtype() == kI32);
  CHECK(relu(i).to_vector<int>() == std::vector<int>{0, 0, 3});
  CHECK(exp(i).dtype() == kF32);
  CHECK(clamp(i, -1, 1).to_vector<int>() == std::vector<int>{-1, 0, 1});
  CHECK(clamp(i, -0.5, 0.5).dtype() == kF32);
  CHECK(floor(i).dtype() == kI32);
  CHECK_THROWS_WITH_AS(neg(tensor({true})), Contains("neg: not defined for bool"), DTypeError);
  CHECK_THROWS_AS(clamp(i, {}), ValueError);
}

TEST_CASE("clamp: integers keep all their digits") {
  constexpr int64_t k = int64_t{1} << 53;  // a double has no number between this and k + 2
  const Tensor x = tensor<int64_t>({INT64_MIN, -k - 1, 0, k + 1, INT64_MAX});
  using Values = std::vector<int64_t>;
  CHECK(clamp(x, {.low = -k - 1}).to_vector<int64_t>() ==
        Values{-k - 1, -k - 1, 0, k + 1, INT64_MAX});
  CHECK(clamp(x, {.high = k + 1}).to_vector<int64_t>() ==
        Values{INT64_MIN, -k - 1, 0, k + 1, k + 1});
  CHECK(clamp(x, INT64_MAX - 1, INT64_MAX).to_vector<int64_t>() ==
        Values{INT64_MAX - 1, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX});
  CHECK(clamp(tensor<uint8_t>({0, 7, 255}), -1, 300).to_vector<int>() ==
        std::vector<int>{0, 7, 255});
}

TEST_CASE("unary ops: subgradients at the kinks") {
  const auto slope = [](auto f, double at) {
    const Tensor x = tensor(at).requires_grad_();
    f(x).backward();
    return x.grad().item<double>();
  };
  CHECK(slope([](const Tensor& x) { return relu(x); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return abs(x); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return sqrt(x); }, 0) == kInf);
  CHECK(slope([](const Tensor& x) { return clamp(x, 0.0, 1.0); }, 0) == 1);
  CHECK(slope([](const Tensor& x) { return clamp(x, 0.0, 1.0); }, 1) == 1);
  CHECK(slope([](const Tensor& x) { return pow(x, 0); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return pow(x, 2); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return maximum(x, tensor(2.0, kF64)); }, 2) == 0.5);
  CHECK(slope([](const Tensor& x) { return minimum(x, tensor(2.0, kF64)); }, 2) == 0.5);
}

TEST_CASE("binary ops: equal the formula with broadcasting, for every layout") {
  const Tensor a = randn({2, 3, 4}, {.dtype = kF64}), b = rand({3, 1}, {.dtype = kF64}) + 0.5;
  const std::vector<double> av = a.to_vector<double>(), bv = b.to_vector<double>();
  struct Case {
    std::string op;
    Tensor (*f)(const Tensor&, const Tensor&);
    double (*reference)(double, double);
  };
  const Case cases[] = {
      {"add", add, [](double p, double q) { return p + q; }},
      {"sub", sub, [](double p, double q) { return p - q; }},
      {"mul", mul, [](double p, double q) { return p * q; }},
      {"div", div, [](double p, double q) { return p / q; }},
      {"maximum", maximum, [](double p, double q) { return std::fmax(p, q); }},
      {"minimum", minimum, [](double p, double q) { return std::fmin(p, q); }},
      {"hypot", hypot, [](double p, double q) { return std::hypot(p, q); }},
  };
  for (const Case& c : cases) {
    std::vector<double> want;
    for (size_t i = 0; i < av.size(); ++i) want.push_back(c.reference(av[i], bv[i / 4 % 3]));
    for (const Layout& layout : layouts()) {
      const std::string text = difference(c.f(layout.apply(a), layout.apply(b)), want, 0);
      CHECK_MESSAGE(text.empty(), c.op, " ", layout.name, ": ", text);
    }
  }
  CHECK(add(zeros({0, 3}), ones({1})).shape() == Shape{0, 3});
  CHECK((tensor(2, kI32) + tensor(3, kI32)).item<int>() == 5);
}

TEST_CASE("binary ops: comparisons and logic equal C++'s, for every layout") {
  // Every pair of smaller, equal, larger and 0; NaN on either side.
  const std::vector<double> av = {-1, -1, 0, 0, 2, 2, kNaN, 1}, bv = {-1, 0, 0, 2, 0, 2, 1, kNaN};
  const Tensor a = tensor(av).reshape({2, 4}), b = tensor(bv).reshape({2, 4});
  struct Case {
    std::string op;
    Tensor (*f)(const Tensor&, const Tensor&);
    bool (*reference)(double, double);
  };
  const Case cases[] = {
      {"eq", eq, [](double p, double q) { return p == q; }},
      {"ne", ne, [](double p, double q) { return p != q; }},
      {"lt", lt, [](double p, double q) { return p < q; }},
      {"le", le, [](double p, double q) { return p <= q; }},
      {"gt", gt, [](double p, double q) { return p > q; }},
      {"ge", ge, [](double p, double q) { return p >= q; }},
      {"logical_and", logical_and, [](double p, double q) { return p != 0 && q != 0; }},
      {"logical_or", logical_or, [](double p, double q) { return p != 0 || q != 0; }},
      {"logical_xor", logical_xor, [](double p, double q) { return (p != 0) != (q != 0); }},
      {"logical_not", [](const Tensor& x, const Tensor&) { return logical_not(x); },
       [](double p, double) { return p == 0; }},
  };
  for (const Case& c : cases) {
    std::vector<double> want;
    for (size_t i = 0; i < av.size(); ++i) want.push_back(c.reference(av[i], bv[i]) ? 1 : 0);
    for (const Layout& layout : layouts()) {
      const Tensor y = c.f(layout.apply(a), layout.apply(b));
      CHECK(y.dtype() == kBool);
      const std::string text = difference(y, want, 0);
      CHECK_MESSAGE(text.empty(), c.op, " ", layout.name, ": ", text);
    }
  }
}

TEST_CASE("binary ops: NaN propagates through maximum and minimum") {
  const Tensor a = tensor({kNaN, 1.0}, kF64), b = tensor({1.0, kNaN}, kF64);
  CHECK(difference(maximum(a, b), {kNaN, kNaN}, 0).empty());
  CHECK(difference(minimum(a, b), {kNaN, kNaN}, 0).empty());
}

TEST_CASE("binary ops: promotion follows PyTorch's table") {
  const auto result = [](DType a, DType b) {
    return (ones({2}, {.dtype = a}) * ones({2}, {.dtype = b})).dtype();
  };
  CHECK(result(kBool, kU8) == kU8);
  CHECK(result(kU8, kI8) == kI16);
  CHECK(result(kI8, kI64) == kI64);
  CHECK(result(kI64, kF16) == kF16);
  CHECK(result(kF16, kBF16) == kF32);
  CHECK(result(kBF16, kF32) == kF32);
  CHECK(result(kF32, kF64) == kF64);
  // Scalars and 0-d tensors raise the category, not the width.
  CHECK((ones({2}, {.dtype = kF16}) + 1.0).dtype() == kF16);
  CHECK((ones({2}, {.dtype = kI8}) + 1000).dtype() == kI8);
  CHECK((ones({2}, {.dtype = kI64}) + 0.5).dtype() == kF32);
  CHECK((ones({2}, {.dtype = kBool}) + 1).dtype() == kI64);
  CHECK((ones({2}) + tensor(1.0, kF64)).dtype() == kF32);
  CHECK((ones({2}, {.dtype = kI32}) + tensor(1.0, kF64)).dtype() == kF64);
  CHECK((tensor({1, 2}, kI32) / tensor({2, 4}, kI32)).dtype() == kF32);
  CHECK(lt(tensor({1}, kI32), tensor({1.5f})).dtype() == kBool);
}

TEST_CASE("binary ops: shapes that do not broadcast are named") {
  CHECK_THROWS_WITH_AS(ones({2, 3}) + ones({4}),
                       Contains("add: shapes [2,3] and [4] do not broadcast"), ShapeError);
  CHECK_THROWS_AS(zeros({0}) + ones({2}), ShapeError);
  CHECK_THROWS_AS(tensor({true}) - tensor({true}), DTypeError);
}

TEST_CASE("long rows: dense ones give the bits of those that are computed element by element") {
  // Below and above the sizes of blocks, of pieces, and of what one thread takes.
  for (const int64_t n : {int64_t{1}, int64_t{1023}, int64_t{1025}, int64_t{70001}}) {
    for (const DType dtype : {kF16, kBF16, kF32, kF64}) {
      CAPTURE(concat(n, " ", dtype));
      const Tensor a = randn({n}).to(dtype), b = randn({n}).to(dtype);
      const Tensor x = gapped(a), y = gapped(b), one = b.narrow(0, n / 2, 1);
      CHECK(difference(gelu(a), gelu(x), 0) == "");
      CHECK(difference(isnan(a), isnan(x), 0) == "");
      CHECK(difference(sin(a), sin(x), 0) == "");
      CHECK(difference(elu(a), elu(x), 0) == "");
      CHECK(difference(gelu_grad(a, b), gelu_grad(x, y), 0) == "");
      CHECK(difference(a * b, x * y, 0) == "");
      CHECK(difference(a - one, x - one, 0) == "");
      CHECK(difference(one / a, one / x, 0) == "");
      CHECK(difference(a < b, x < y, 0) == "");
      CHECK(difference(one < a, one < x, 0) == "");
      CHECK(difference(fmod(a, b), fmod(x, y), 0) == "");
      CHECK(difference(where(a < b, a, b), where(x < y, x, y), 0) == "");
      CHECK(difference(a.to(kF32), x.to(kF32), 0) == "");
      const Tensor in_place = a.clone();
      in_place.mul_(in_place);  // the result and both operands in one memory
      CHECK(difference(in_place, x * x, 0) == "");
    }
  }
}

template <class Half16>
void check_every_number() {
  std::vector<Half16> numbers;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    numbers.push_back(Half16::from_bits(static_cast<uint16_t>(bits)));
  }
  const Tensor x = tensor(numbers), y = gapped(x);
  const auto equal = [&](const std::string& op, const Tensor& looked_up, const Tensor& computed) {
    const auto got = looked_up.to_vector<Half16>(), want = computed.to_vector<Half16>();
    size_t different = 0;
    for (size_t i = 0; i < got.size(); ++i) different += got[i].bits != want[i].bits;
    CHECK_MESSAGE(different == 0, op, " ", concat(x.dtype()));
  };
  for (const UnaryCase& c : kCases) equal(c.op, c.f(x), c.f(y));
  for (const double dy : {1.0, -0.3, 1e-30, kInf, kNaN}) {
    const Tensor same = full({x.numel()}, dy, {.dtype = x.dtype()});
    equal("gelu_grad", gelu_grad(same, x), gelu_grad(same, y));
    equal("gelu_tanh_grad", gelu_tanh_grad(same, x), gelu_tanh_grad(same, y));
  }
  const Tensor in_place = x.clone();
  in_place.exp_();
  equal("exp_", in_place, exp(y));
}

TEST_CASE("long rows: a half type's op gives every number the bits that it has alone") {
  check_every_number<Half>();
  check_every_number<BFloat16>();
}

TEST_CASE("half tensors: a number is not rounded to the half type before it is used") {
  const Tensor x = tensor({1000.f, 2.f}).to(kF16);
  CHECK((x * 1e-6).dtype() == kF16);
  CHECK(difference(x * 1e-6, {1e-3, 2e-6}, 1e-6).empty());
  CHECK(difference(x / 1e5, {1e-2, 2e-5}, 1e-5).empty());
  CHECK(difference(full({2}, 1000.0, {.dtype = kF16}).div_(1e5), {1e-2, 1e-2}, 1e-5).empty());
  const Tensor many = ones({70000}, {.dtype = kF16}).requires_grad_();
  (many.mean() * 30000.0).backward();
  CHECK(many.grad()[0].item<double>() == doctest::Approx(30000.0 / 70000).epsilon(1e-3));
}

TEST_CASE("integers wrap instead of overflowing") {
  const Tensor largest = full({1}, INT64_MAX);
  CHECK((largest + 1).item<int64_t>() == INT64_MIN);
  CHECK((largest * 2).item<int64_t>() == -2);
  CHECK(neg(largest + 1).item<int64_t>() == INT64_MIN);
  CHECK(abs(largest + 1).item<int64_t>() == INT64_MIN);
  CHECK(square(tensor({1 << 20})).item<int>() == 0);
}

TEST_CASE("clamp: low above high gives high; elu: the gradient at infinity is finite") {
  CHECK(clamp(tensor(0.0, kF64), 3.0, 1.0).item<double>() == 1);
  const Tensor x = tensor({-kInf, kInf}).requires_grad_();
  elu(x).sum().backward();
  CHECK(difference(x.grad(), {0, 1}, 0).empty());
}

TEST_CASE("pow: squares, cubes and other powers agree with those in f64") {
  const std::vector<double> bases = {0, -0.0, 1, -1, 1.5, -2.75, 3e12, -3e12, kInf, -kInf, NAN};
  for (const double exponent : {2.0, 3.0, -2.0, 2.5, 1.0, 0.0}) {
    const Tensor x = tensor(bases, kF32);
    const std::vector<double> one = pow(x, exponent).to_vector<double>(),
                              each = pow(x, full_like(x, exponent)).to_vector<double>();
    for (size_t i = 0; i < bases.size(); ++i) {
      CAPTURE(bases[i]);
      CAPTURE(exponent);
      const auto base = static_cast<float>(bases[i]);
      const double want = static_cast<float>(std::pow(double{base}, exponent));
      const bool is_nan = std::isnan(want);
      CHECK(std::isnan(one[i]) == is_nan);
      CHECK((one[i] == each[i] || (is_nan && std::isnan(each[i]))));
      if (!is_nan && std::isinf(want)) CHECK(one[i] == want);
      if (!is_nan && !std::isinf(want)) CHECK(std::fabs(one[i] - want) <= 2e-7 * std::fabs(want));
    }
  }
}

TEST_CASE("pow: integers, and gradients at zero") {
  CHECK(pow(tensor({2, 3, -1}, kI32), tensor({10, 0, -3}, kI32)).to_vector<int>() ==
        std::vector<int>{1024, 1, -1});
  const Tensor a = tensor({0.0, 0.0}, kF64).requires_grad_(),
               b = tensor({0.0, 2.0}, kF64).requires_grad_();
  pow(a, b).sum().backward();
  CHECK(difference(a.grad(), {0, 0}, 0).empty());
  CHECK(difference(b.grad(), {0, 0}, 0).empty());
}

TEST_CASE("hypot: nothing overflows or underflows on the way") {
  const double large = std::numeric_limits<double>::max() / 2, small = 0x1p-1070;
  CHECK(difference(hypot(tensor({3.0, -5.0, 0.0, large, kInf}, kF64),
                         tensor({4.0, 12.0, -0.0, 0.0, 1.0}, kF64)),
                   {5, 13, 0, large, kInf}, 0) == "");
  for (const double unit : {0x1p+1000, small}) {
    const Tensor a = tensor({3 * unit}, kF64).requires_grad_();
    const Tensor b = tensor({4 * unit}, kF64).requires_grad_();
    const Tensor y = hypot(a, b);
    y.sum().backward();
    CHECK(y.item<double>() == 5 * unit);
    CHECK(difference(a.grad(), {0.6}, 1e-15) == "");
    CHECK(difference(b.grad(), {0.8}, 1e-15) == "");
  }
  // f16: the squares are beyond 65504, the result, 50000 rounded, is not.
  CHECK(hypot(tensor({30000.f}).to(kF16), tensor({40000.f}).to(kF16)).item<float>() == 49984);
}

TEST_CASE("hypot: promotes like the other ops, and takes no integers") {
  CHECK(hypot(ones({2}, {.dtype = kI32}), ones({2}, {.dtype = kBF16})).dtype() == kBF16);
  CHECK(hypot(ones({2}, {.dtype = kF16}), ones({2})).dtype() == kF32);
  CHECK(hypot(ones({2}), tensor(1.0, kF64)).dtype() == kF32);
  CHECK_THROWS_WITH_AS(hypot(tensor({3}, kI32), tensor({4}, kI32)),
                       Contains("hypot: expected a floating dtype, got i32"), DTypeError);
  CHECK_THROWS_AS(hypot(tensor({true}), tensor({true})), DTypeError);
}

TEST_CASE("casts: round to nearest even, truncate, saturate to infinity") {
  CHECK(tensor({65519.f, 65520.f, 2.98023e-8f}).to(kF16).to_vector<float>() ==
        std::vector<float>{65504.f, std::numeric_limits<float>::infinity(), 0.f});
  CHECK(tensor({-1.9, 2.9}, kF64).to(kI32).to_vector<int>() == std::vector<int>{-1, 2});
  CHECK(tensor({0.0, 0.3, kNaN}, kF64).to(kBool).to_vector<int>() == std::vector<int>{0, 1, 1});
  CHECK(tensor({300, -1}, kI32).to(kU8).to_vector<int>() == std::vector<int>{44, 255});
}

TEST_CASE("in-place ops: results equal the plain ops, and wrong operands change nothing") {
  const Tensor x = tensor({1.f, 2.f, 4.f});
  x.add_(tensor({1.f})).mul_(2.0).sub_(tensor({1.f, 1.f, 1.f})).div_(tensor({3.f, 5.f, 9.f}));
  CHECK(x.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(x.version() == 4);
  CHECK_THROWS_AS(x.add_(ones({2, 3})), ShapeError);
  CHECK_THROWS_WITH_AS(tensor({1, 2}, kI32).add_(0.5),
                       Contains("add_: the result does not fit i32"), DTypeError);
  CHECK_THROWS_AS(tensor({1, 2}, kI32).div_(2), DTypeError);
  CHECK(x.version() == 4);
  const Tensor m = tensor({{1.f, 2.f}, {3.f, 4.f}});
  m.add_(m.t());  // reads what it writes: as if from a copy
  CHECK(m.to_vector<float>() == std::vector<float>{2, 5, 5, 8});
  const Tensor wide = zeros({2, 3});
  wide.copy_(tensor({1, 2, 3}, kI32));
  CHECK(wide.to_vector<int>() == std::vector<int>{1, 2, 3, 1, 2, 3});
  CHECK(tensor({5, 6}, kI32).fill_(7).to_vector<int>() == std::vector<int>{7, 7});
}

TEST_CASE("in-place ops: an operand that overlaps what is written is read first") {
  // Long enough for several threads and wide instructions.
  constexpr int64_t kSize = 100000;
  const auto shifted = [](const Tensor& (*write)(const Tensor& to, const Tensor& from), int64_t to,
                          int64_t from) {
    const Tensor x = arange(kSize).to(kF64);
    write(x.narrow(0, to, kSize - 1), x.narrow(0, from, kSize - 1));
    return x.to_vector<double>();
  };
  using Write = const Tensor& (*)(const Tensor&, const Tensor&);
  const Write copy = copy_, multiply = mul_;
  const std::vector<double> up = shifted(copy, 1, 0), down = shifted(copy, 0, 1),
                            product = shifted(multiply, 1, 0);
  int64_t wrong = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto value = static_cast<double>(i);
    wrong += up[at] != (i == 0 ? 0 : value - 1);
    wrong += down[at] != (i + 1 == kSize ? value : value + 1);
    wrong += product[at] != (i == 0 ? 0 : value * (value - 1));
  }
  CHECK(wrong == 0);
}
