// Special functions against mpmath's values, at their poles, and their gradients.
#include "lathe/ops/special.h"

#include <limits>
#include <string>

#include "compare.h"
#include "golden_special.h"
#include "lathe/core/random/generator.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor apply(const GoldenSpecial& g, const Tensor& x) {
  if (std::string(g.op) == "lgamma") return lgamma(x);
  return std::string(g.op) == "erfinv" ? erfinv(x) : polygamma(g.n, x);
}

}  // namespace

TEST_CASE("special functions: values are mpmath's, in f64 and f32") {
  for (const GoldenSpecial& g : kGoldenSpecial) {
    CAPTURE(concat(g.op, " ", g.n, " of ", g.x));
    const double got = apply(g, tensor(g.x, kF64)).item<double>();
    const double roots = g.n < 12 ? 1e-14 : 0;  // near them; polygamma of high order has none here
    const double accuracy = g.n > 170 ? 1e-12 : 2e-14;  // n! leaves f64's range
    CHECK(std::fabs(got - g.y) <= accuracy * std::fabs(g.y) + roots);
    const double rounded = static_cast<double>(static_cast<float>(g.x));
    if (rounded != g.x) continue;         // the function elsewhere
    if (std::fabs(g.y) > 3e38) continue;  // outside f32
    CHECK(apply(g, tensor(g.x, kF32)).item<float>() == doctest::Approx(g.y).epsilon(1e-6));
  }
}

TEST_CASE("special functions: every layout and dtype gives the value of a lone element") {
  manual_seed(4);
  const auto check = [](const char* name, Tensor (*f)(const Tensor& x)) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor x = (rand({3, 5}, {.dtype = kF64}) * 0.8 + 0.1).to(dtype);
      std::vector<double> want;
      for (const double v : x.to_vector<double>()) {
        want.push_back(f(tensor(v, kF64)).item<double>());
      }
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(name, " ", x, " ", layout.name));
        CHECK(difference(f(layout.apply(x)), want, tolerance_of(dtype)) == "");
      }
    }
    CHECK(f(zeros({0, 3})).shape() == Shape{0, 3});
    CHECK(f(tensor(1)).dtype() == kF32);
  };
  check("lgamma", [](const Tensor& x) { return lgamma(x); });
  check("digamma", [](const Tensor& x) { return digamma(x); });
  check("polygamma", [](const Tensor& x) { return polygamma(1, x); });
  check("erfinv", [](const Tensor& x) { return erfinv(x); });
}

TEST_CASE("special functions: poles, infinities and NaN") {
  const Tensor x = tensor({0.0, -0.0, -1.0, kInf, -kInf, kNan}, kF64);
  CHECK(difference(lgamma(x), {kInf, kInf, kInf, kInf, kInf, kNan}, 0) == "");
  CHECK(difference(digamma(x), {-kInf, kInf, kNan, kInf, kNan, kNan}, 0) == "");
  CHECK(difference(polygamma(1, x), {kInf, kInf, kInf, 0, kNan, kNan}, 0) == "");
  CHECK(difference(polygamma(2, x), {-kInf, -kInf, -kInf, 0, kNan, kNan}, 0) == "");
  const Tensor ends = tensor({1.0, -1.0, 1.5, 0.0, kNan}, kF64);
  CHECK(difference(erfinv(ends), {kInf, -kInf, kNan, 0, kNan}, 0) == "");
  const Tensor points = tensor({0.5, 2.0, 1e10, -0.25, -1.75, -0.5, kNan}, kF64);
  CHECK(difference(polygamma(10'000'000'000, points), {-kInf, -kInf, 0, kInf, -kInf, -kInf, kNan},
                   0) == "");
  CHECK(polygamma(1, tensor(-1e-20, kF64)).item<double>() == doctest::Approx(1e40));
  CHECK_THROWS_WITH_AS(polygamma(-1, x), doctest::Contains("n must not be negative, got -1"),
                       ValueError);
}

TEST_CASE("special functions: gradients agree with finite differences, twice") {
  manual_seed(5);
  const Tensor positive = f64_in({3, 4}, 0.6, 4), inside = f64_in({3, 4}, -0.8, 0.8);
  const GradientCase cases[] = {
      {"lgamma", [](const Tensors& x) { return lgamma(x[0]); }, {positive}},
      {"digamma", [](const Tensors& x) { return digamma(x[0]); }, {positive}},
      {"digamma below 0", [](const Tensors& x) { return digamma(x[0] - 6); }, {inside * 0.3 + 0.5}},
      {"polygamma", [](const Tensors& x) { return polygamma(2, x[0]); }, {positive}},
      {"erfinv", [](const Tensors& x) { return erfinv(x[0]); }, {inside}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}
