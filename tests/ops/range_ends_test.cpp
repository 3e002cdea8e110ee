// sigmoid, silu and gelu over the whole range of f32, f16 and bf16, with their gradients: nothing
// overflows on the way, and what is not finite is so by the formula.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lathe/core/half.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/unary.h"

using namespace lathe;

namespace {

using Number = std::function<double(double)>;

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
/// The inner value of gelu's tanh form.
double bent(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
/// 1 - tanh(u)², which is 0 long before the factors beside it are infinite.
double slope_of_tanh(double u) { return 1 / (std::cosh(u) * std::cosh(u)); }

struct Case {
  std::string op;
  std::function<Tensor(const Tensor&)> f;
  Number value, slope;
};
const Case kCases[] = {
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, sigmoid_of,
     [](double x) { return sigmoid_of(x) * sigmoid_of(-x); }},
    {"silu", [](const Tensor& x) { return silu(x); },
     [](double x) { return x / (1 + std::exp(-x)); },
     [](double x) { return sigmoid_of(x) + x * sigmoid_of(x) * sigmoid_of(-x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }, [](double x) { return x * phi(x); },
     [](double x) { return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }},
    {"gelu tanh", [](const Tensor& x) { return gelu(x, {.tanh_approximation = true}); },
     [](double x) { return x * sigmoid_of(2 * bent(x)); },
     [](double x) {
       if (std::fabs(x) > 1e3) return x > 0 ? 1.0 : 0.0;
       const double u = bent(x), inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
       return sigmoid_of(2 * u) + 0.5 * x * slope_of_tanh(u) * inner;
     }},
};

/// Every finite number of a half type, as f32.
template <class T>
std::vector<float> all_of() {
  std::vector<float> values;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float x{T::from_bits(static_cast<uint16_t>(bits))};
    if (std::isfinite(x)) values.push_back(x);
  }
  return values;
}

/// `step` is the relative distance of neighbouring numbers of the type, `least` its smallest one.
void check_type(const Case& c, const std::vector<float>& values, DType dtype, double step,
                double least) {
  CAPTURE(c.op);
  CAPTURE(dtype);
  const Tensor x = tensor(values).to(dtype).requires_grad_(true);
  const Tensor y = c.f(x);
  y.sum().backward();
  const auto got = y.to_vector<double>(), dx = x.grad().to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i], value = c.value(v), slope = c.slope(v);
    // One number of the type; and 1 + erf, or 1 + tanh, which lose digits where they are near 0.
    const double near_zero = 0x1p-22 * std::min(std::fabs(v), 16.0);
    const double value_error = step * std::fabs(value) + least + near_zero;
    if (!(std::fabs(got[i] - value) <= value_error)) {
      FAIL_CHECK("at ", v, ": got ", got[i], ", want ", value);
    }
    // The gradient of sigmoid and silu is one of the rounded result.
    const double slope_error = 2 * step * (1 + std::min(std::fabs(v), 16.0)) + least;
    if (!(std::fabs(dx[i] - slope) <= slope_error)) {
      FAIL_CHECK("at ", v, ": slope ", dx[i], ", want ", slope);
    }
  }
}

}  // namespace

TEST_CASE("sigmoid, silu, gelu: right at every number of f16 and bf16, slopes too") {
  for (const Case& c : kCases) {
    check_type(c, all_of<Half>(), kF16, 0x1p-10, 0x1p-24);
    check_type(c, all_of<BFloat16>(), kBF16, 0x1p-7, 0x1p-133);
  }
}

TEST_CASE("sigmoid, silu, gelu: right at the ends of f32, slopes too") {
  std::vector<float> values = {
      0,   1e-45f, 1e-38f, 1e-20f, 1e-4f, 1,     5,     17,
      20,  80,     87,     88.5f,  88.8f, 89,    103,   104,
      105, 1e3f,   1e10f,  1e13f,  1e19f, 1e20f, 1e30f, std::numeric_limits<float>::max()};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  for (const Case& c : kCases) check_type(c, values, kF32, 0x1p-20, 0x1p-149);
}

TEST_CASE("sigmoid, silu, gelu: at infinity and NaN") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({kInf, -kInf, std::nanf("")});
  for (const DType dtype : {kF32, kF16, kBF16}) {
    for (const Case& c : kCases) {
      CAPTURE(c.op);
      const auto y = c.f(x.to(dtype)).to_vector<float>();
      const bool bounded = c.op == "sigmoid";
      CHECK(y[0] == (bounded ? 1 : kInf));
      CHECK((bounded ? y[1] == 0 : std::isnan(y[1])));  // -inf · 0, as in PyTorch
      CHECK(std::isnan(y[2]));
    }
  }
}
