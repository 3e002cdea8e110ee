// Third derivatives: of formulas that are known, and of chains of ops against finite differences.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/functional.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

/// The third derivative of f by each element of x; f works element by element.
std::vector<double> third(const std::function<Tensor(const Tensor&)>& f,
                          const std::vector<double>& at) {
  const Tensor x = tensor(at).to(kF64).detach().requires_grad_();
  Tensor y = f(x).sum();
  for (int order = 1; order < 3; ++order) y = grad({y}, {x}, {.create_graph = true})[0].sum();
  return grad({y}, {x})[0].to_vector<double>();
}

void check_near(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE("third derivatives: of a polynomial, tanh, exp and 1/x they are the formulas") {
  const std::vector<double> at{-1.5, -0.3, 0.7, 2.0};
  std::vector<double> polynomial, of_tanh, of_exp, inverse;
  for (const double x : at) {
    const double t = std::tanh(x);
    polynomial.push_back(60 * x * x - 12);
    of_tanh.push_back(-2 * (1 - t * t) * (1 - 3 * t * t));
    of_exp.push_back(8 * std::exp(2 * x));
    inverse.push_back(-6 / (x * x * x * x));
  }
  check_near(third([](const Tensor& x) { return x.pow(5) - x * x * x * 2 + x; }, at), polynomial);
  check_near(third([](const Tensor& x) { return tanh(x); }, at), of_tanh);
  check_near(third([](const Tensor& x) { return (x * 2).exp(); }, at), of_exp);
  check_near(third([](const Tensor& x) { return 1.0 / x; }, at), inverse);
}

TEST_CASE("third derivatives: of the smooth elementwise ops they agree with differences") {
  struct Case {
    const char* op;
    Tensor (*f)(const Tensor& x);
  };
  using T = const Tensor&;
  // clang-format off
  const Case cases[] = {
      {"exp", [](T x) { return exp(x); }}, {"expm1", [](T x) { return expm1(x); }},
      {"exp2", [](T x) { return exp2(x); }}, {"log", [](T x) { return log(x); }},
      {"log1p", [](T x) { return log1p(x); }}, {"log2", [](T x) { return log2(x); }},
      {"log10", [](T x) { return log10(x); }}, {"sqrt", [](T x) { return sqrt(x); }},
      {"rsqrt", [](T x) { return rsqrt(x); }}, {"reciprocal", [](T x) { return reciprocal(x); }},
      {"square", [](T x) { return square(x) * x; }}, {"sin", [](T x) { return sin(x); }},
      {"cos", [](T x) { return cos(x); }}, {"tan", [](T x) { return tan(x); }},
      {"asin", [](T x) { return asin(x); }}, {"acos", [](T x) { return acos(x); }},
      {"atan", [](T x) { return atan(x); }}, {"sinh", [](T x) { return sinh(x); }},
      {"cosh", [](T x) { return cosh(x); }}, {"asinh", [](T x) { return asinh(x); }},
      {"acosh", [](T x) { return acosh(x + 1); }}, {"atanh", [](T x) { return atanh(x); }},
      {"tanh", [](T x) { return tanh(x); }}, {"sigmoid", [](T x) { return sigmoid(x); }},
      {"erf", [](T x) { return erf(x); }}, {"gelu", [](T x) { return gelu(x); }},
      {"gelu tanh", [](T x) { return gelu(x, {.tanh_approximation = true}); }},
      {"silu", [](T x) { return silu(x); }}, {"softplus", [](T x) { return softplus(x); }},
      {"elu", [](T x) { return elu(x - 1); }}, {"mish", [](T x) { return mish(x); }},
      {"softsign", [](T x) { return softsign(x); }}, {"logsigmoid", [](T x) { return logsigmoid(x); }},
      {"pow", [](T x) { return pow(x, x); }}, {"pow by a number", [](T x) { return pow(x, 2.5); }},
      {"pow of a number", [](T x) { return pow(2.5, x); }}, {"div", [](T x) { return x / (x * x + 1); }},
      {"hypot", [](T x) { return hypot(x, x * x); }}, {"atan2", [](T x) { return atan2(x, x * x + 1); }},
      {"lerp", [](T x) { return lerp(x, x * x, x); }},
  };
  // clang-format on
  const Tensor x = uniform_(empty({2, 3}, {.dtype = kF64}), 0.2, 0.8);
  for (const Case& c : cases) {
    const auto sum = [&](const Tensors& in) { return c.f(in[0]).sum(); };
    const auto first = [&](const Tensors& in) {
      return vjp(sum, in, {}, {.create_graph = true}).products[0];
    };
    const GradReport report = gradgradcheck(first, {x});
    CHECK_MESSAGE(report.ok, c.op, ": ", report.text);
  }
}

TEST_CASE("third derivatives: of chains with products and softmax they agree with differences") {
  using Function = std::function<Tensor(const Tensors&)>;
  const std::vector<Function> functions{
      [](const Tensors& in) { return tanh(matmul(tanh(matmul(in[0], in[1])), in[1])).sum(); },
      [](const Tensors& in) { return (softmax(matmul(in[0], in[1]), 1).square() * in[0]).sum(); },
      [](const Tensors& in) { return (in[0].sigmoid() / (in[1].square() + 1)).log().sum(); }};
  const Tensors inputs{randn({3, 3}, {.dtype = kF64}), randn({3, 3}, {.dtype = kF64})};
  for (size_t k = 0; k < functions.size(); ++k) {
    INFO("function " << k);
    const auto gradient = [&](const Tensors& in) {
      const Tensors g = vjp(functions[k], in, {}, {.create_graph = true}).products;
      return (g[0] * g[1]).square();
    };
    const GradReport report = gradgradcheck(gradient, inputs);
    CHECK_MESSAGE(report.ok, report.text);
  }
}
