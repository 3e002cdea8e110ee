// addcmul, addcdiv, logaddexp and nan_to_num, and arithmetic of bools. The numbers are PyTorch's
// (2.15, f64).
#include "lathe/ops/arithmetic.h"

#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("addcmul, addcdiv: values in every layout and dtype, on every device") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(dtype, " ", layout.name, " on ", device));
        const auto of = [&](const Tensor& t) { return layout.apply(t.to(dtype)).to(device); };
        const Tensor a = of(tensor({{1.0, -2.0, 3.0}, {0.5, 4.0, -5.0}}, kF64));
        const Tensor b = of(tensor({{2.0, 1.0, -1.0}, {3.0, -0.5, 0.25}}, kF64));
        const Tensor c = of(tensor({0.5, 2.0, -1.0}, kF64));
        CHECK(addcmul(a, b, c, 0.5).dtype() == dtype);
        CHECK(difference(addcmul(a, b, c, 0.5).cpu(), {1.5, -1, 3.5, 1.25, 3.5, -5.125},
                         tolerance_of(dtype)) == "");
        CHECK(difference(addcdiv(a, b, c, -2).cpu(), {-7, -3, 1, -11.5, 4.5, -4.5},
                         tolerance_of(dtype)) == "");
      }
    }
  }
  CHECK(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}), 2).to_vector<int>() ==
        std::vector<int>{31, 50});
}

TEST_CASE("addcmul, addcdiv: 0-d tensors raise the category only, and value comes first") {
  const Tensor line = zeros({3}), number = tensor(1.5, kF64), other = tensor(2.0, kF64);
  CHECK(addcmul(line, number, other).dtype() == kF32);
  CHECK(addcdiv(line, number, other).dtype() == kF32);
  CHECK(addcmul(number, other, line).dtype() == kF32);
  CHECK(addcmul(line, number, ones({3}, {.dtype = kF16})).dtype() == kF32);
  CHECK(addcmul(tensor({1}), number, other).dtype() == kF64);
  CHECK(addcmul(tensor(1.f), number, other).dtype() == kF64);
  const Tensor zero = tensor({0.f}), large = tensor({1e30f}), small = tensor({1e-30f});
  CHECK(addcmul(zero, large, large, 1e-30).item<float>() == doctest::Approx(1e30));
  CHECK(addcdiv(zero, large, small, 1e-30).item<float>() == doctest::Approx(1e30));
}

TEST_CASE("logaddexp: values, also at infinities") {
  const Tensor a = tensor({1.0, -20.0, kInf, -kInf, kInf, 3.0, kNaN}, kF64);
  const Tensor b = tensor({2.0, 0.0, kInf, -kInf, -kInf, 3.0, 1.0}, kF64);
  const Values want = {
      2.313261687518223, 2.061153620314381e-09, kInf, -kInf, kInf, 3.6931471805599454, kNaN};
  CHECK(difference(logaddexp(a, b), want, 1e-15) == "");
  CHECK(difference(logaddexp(b, a), want, 1e-15) == "");
  CHECK(logaddexp(a.to(kF16), b.to(kF16)).dtype() == kF16);
}

TEST_CASE("nan_to_num: NaN, infinities and their defaults in every dtype") {
  const Tensor x = tensor({kNaN, kInf, -kInf, 2.0}, kF64);
  const std::pair<DType, double> largest[] = {{kF64, 1.7976931348623157e308},
                                              {kF32, 3.4028234663852886e38},
                                              {kF16, 65504.0},
                                              {kBF16, 3.3895313892515355e38}};
  for (const auto& [dtype, number] : largest) {
    CAPTURE(concat(dtype));
    CHECK(nan_to_num(x.to(dtype)).dtype() == dtype);
    CHECK(nan_to_num(x.to(dtype)).to_vector<double>() == Values{0, number, -number, 2});
  }
  const Tensor chosen = nan_to_num(x, {.nan = 1, .posinf = 5, .neginf = -6});
  CHECK(chosen.to_vector<double>() == Values{1, 5, -6, 2});
  const Tensor whole = tensor({1, 2});
  CHECK(nan_to_num(whole).to_vector<int>() == std::vector<int>{1, 2});
  CHECK_FALSE(nan_to_num(whole).shares_storage(whole));
}

TEST_CASE("arithmetic: gradients agree with finite differences, twice") {
  manual_seed(31);
  const Tensor a = f64({2, 3}), b = f64({2, 3}), row = f64({3});
  const Tensor divisor = f64_in({3}, 0.5, 2.0);
  const GradientCase cases[] = {
      {"addcmul", [](In in) { return addcmul(in[0], in[1], in[2], 0.5); }, {a, b, row}},
      {"addcdiv", [](In in) { return addcdiv(in[0], in[1], in[2], -2); }, {a, b, divisor}},
      {"logaddexp", [](In in) { return logaddexp(in[0], in[1]); }, {a, row + 3}},
      {"logaddexp of equals", [](In in) { return logaddexp(in[0], in[1]); }, {a, a.clone()}},
      {"nan_to_num", [](In in) { return nan_to_num(in[0]); }, {a}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
  const Tensor x = tensor({kNaN, kInf, 2.0}, kF64).requires_grad_();
  nan_to_num(x).sum().backward();
  CHECK(x.grad().to_vector<double>() == Values{0, 0, 1});
}

TEST_CASE("add, mul, maximum, minimum: of bools they are logic") {
  for (const Device device : devices()) {
    const Tensor a = tensor({true, true, false, false}).to(device);
    const Tensor b = tensor({true, false, true, false}).to(device);
    const std::vector<int> either = {1, 1, 1, 0}, both = {1, 0, 0, 0};
    CHECK((a + b).dtype() == kBool);
    CHECK((a + b).cpu().to_vector<int>() == either);
    CHECK(maximum(a, b).cpu().to_vector<int>() == either);
    CHECK((a * b).cpu().to_vector<int>() == both);
    CHECK(minimum(a, b).cpu().to_vector<int>() == both);
    CHECK((a.view({2, 2}).t() * b.view({2, 2})).cpu().to_vector<int>() ==
          std::vector<int>{1, 0, 1, 0});
    CHECK_THROWS_AS(a - b, DTypeError);
  }
}

TEST_CASE("arithmetic: errors name the op and the tensors") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(addcmul(x, x, zeros({2})), ShapeError);
  CHECK_THROWS_WITH_AS(addcdiv(x, x, tensor({1, 2, 3})),
                       Contains("addcdiv: expected a floating dtype (x: i64[3]@cpu)"), DTypeError);
  CHECK_THROWS_WITH_AS(addcmul(tensor({1}), tensor({1}), tensor({1}), 0.5),
                       Contains("addcmul: value 0.5 does not fit i64"), DTypeError);
  CHECK_THROWS_WITH_AS(addcmul(tensor({true}), tensor({true}), tensor({true})),
                       Contains("addcmul: not defined for bool"), DTypeError);
  CHECK_THROWS_AS(logaddexp(tensor({1}), x), DTypeError);
}
