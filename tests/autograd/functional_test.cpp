// Derivatives of functions: against finite differences and formulas, their own derivatives, errors.
#include "lathe/autograd/functional.h"

#include <doctest/doctest.h>

#include <cmath>

#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using doctest::Contains;

namespace {

using Doubles = std::vector<double>;
Doubles values(const Tensor& t) { return t.to_vector<double>(); }
Tensor normal(const Shape& shape) { return randn(shape, {.dtype = kF64}); }

/// Two inputs, two outputs: [2] and a number.
Tensors pair_of_results(const Tensors& in) {
  return {matmul(in[0], in[1]).tanh(), (in[0].square().sum() * in[1].exp().sum())};
}
Tensor scalar(const Tensors& in) {
  return (matmul(in[0], in[1]).tanh() * in[1][0]).sum() + in[0].square().square().sum();
}
const Tensors& two_inputs() {
  static const Tensors inputs{normal({2, 3}), normal({3})};
  return inputs;
}

/// Central differences of f by element j of input i: one column of the Jacobian. The error of the
/// formula is about step^2, of the rounding 1e-16 / step.
Tensors numeric_column(const TensorsFunction& f, const Tensors& inputs, size_t i, int64_t j) {
  constexpr double kStep = 1e-5;
  const auto at = [&](double shift) {
    Tensors moved = inputs;
    moved[i] = inputs[i].clone();
    moved[i].data<double>()[j] += shift;
    return f(moved);
  };
  Tensors out;
  const Tensors above = at(kStep), below = at(-kStep);
  for (size_t k = 0; k < above.size(); ++k) {
    out.push_back((above[k] - below[k]).detach() / (2 * kStep));
  }
  return out;
}

void check_near(const Tensor& a, const Tensor& b, double tolerance = 1e-8) {
  REQUIRE(a.shape() == b.shape());
  const double error = a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
  CHECK(error < tolerance);
}

void check_jacobian(const TensorsFunction& f, const Tensors& inputs,
                    const std::vector<Tensors>& found) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int64_t j = 0; j < inputs[i].numel(); ++j) {
      const Tensors column = numeric_column(f, inputs, i, j);
      REQUIRE(column.size() == found.size());
      for (size_t k = 0; k < column.size(); ++k) {
        INFO("output " << k << ", input " << i << ", element " << j);
        const Tensor flat = found[k][i].reshape({column[k].numel(), inputs[i].numel()});
        check_near(flat.select(1, j), column[k].reshape({column[k].numel()}));
      }
    }
  }
}

Tensor total(const Tensors& a, const Tensors& b) {
  Tensor sum = (a[0] * b[0]).sum();
  for (size_t i = 1; i < a.size(); ++i) sum = sum + (a[i] * b[i]).sum();
  return sum;
}

}  // namespace

TEST_CASE("jacobian: equals finite differences, with the shapes of outputs and inputs") {
  const Tensors& in = two_inputs();
  const std::vector<Tensors> j = jacobian(pair_of_results, in);
  REQUIRE(j.size() == 2);
  CHECK(j[0][0].shape() == Shape{2, 2, 3});
  CHECK(j[0][1].shape() == Shape{2, 3});
  CHECK(j[1][0].shape() == Shape{2, 3});
  CHECK_FALSE(j[0][0].requires_grad());
  check_jacobian(pair_of_results, in, j);
}

TEST_CASE("hessian: equals finite differences of the gradient") {
  const Tensors& in = two_inputs();
  const std::vector<Tensors> h = hessian(scalar, in);
  CHECK(h[0][1].shape() == Shape{2, 3, 3});
  const auto gradient = [](const Tensors& t) { return vjp(scalar, t).products; };
  check_jacobian(gradient, in, h);
}

TEST_CASE("vjp, jvp, hvp: are products with the Jacobian and the Hessian") {
  const Tensors& in = two_inputs();
  const Tensors v{normal({2, 3}), normal({3})}, u{normal({2}), normal({})};
  const std::vector<Tensors> j = jacobian(pair_of_results, in), h = hessian(scalar, in);

  const auto [outputs, forward] = jvp(pair_of_results, in, v);
  const auto [same_outputs, backward] = vjp(pair_of_results, in, u);
  for (size_t k = 0; k < 2; ++k) {
    check_near(outputs[k], pair_of_results(in)[k], 1e-14);
    CHECK(values(outputs[k]) == values(same_outputs[k]));
    for (int64_t e = 0; e < u[k].numel(); ++e) {
      const auto row = [&](size_t i) {
        return j[k][i].reshape({u[k].numel(), in[i].numel()})[e].reshape(in[i].shape());
      };
      const double expected = total({row(0), row(1)}, v).item<double>();
      CHECK(values(forward[k])[static_cast<size_t>(e)] == doctest::Approx(expected));
    }
  }
  // u (J v) = (u J) v
  CHECK(total(forward, u).item<double>() == doctest::Approx(total(backward, v).item<double>()));

  const auto [y, products] = hvp(scalar, in, v);
  CHECK(values(y[0]) == values(scalar(in)));
  for (size_t i = 0; i < 2; ++i) {
    const Tensor left = h[i][0].reshape({in[i].numel(), 6}), right = h[i][1].reshape({-1, 3});
    const Tensor expected = matmul(left, v[0].reshape({6})) + matmul(right, v[1]);
    check_near(products[i].reshape({in[i].numel()}), expected, 1e-12);
  }
}

TEST_CASE(
    "functional: create_graph gives results with right derivatives, also by what f refers to") {
  const Tensor scale = normal({3});
  const Tensor u = normal({2});
  const auto with = [&](auto&& derivative) {
    return [&, derivative](const Tensors& in) {
      const auto f = [&](const Tensors& t) { return tanh(matmul(t[0], t[1] * in[2])); };
      return derivative(f, Tensors{in[0], in[1]});
    };
  };
  const DerivativeOptions keep{.create_graph = true};
  const Tensors inputs{normal({2, 3}), normal({3}), scale};
  const std::vector<std::function<Tensor(const Tensors&)>> cases{
      with([&](const auto& f, const Tensors& in) { return vjp(f, in, {u}, keep).products[0]; }),
      with([&](const auto& f, const Tensors& in) { return vjp(f, in, {u}, keep).outputs[0]; }),
      with([&](const auto& f, const Tensors& in) { return jvp(f, in, in, keep).products[0]; }),
      with([&](const auto& f, const Tensors& in) { return jacobian(f, in, keep)[0][1]; }),
      with([&](const auto& f, const Tensors& in) {
        const auto sum = [&](const Tensors& t) { return f(t).sum(); };
        return hessian(sum, in, keep)[0][1];
      }),
      with([&](const auto& f, const Tensors& in) {
        const auto sum = [&](const Tensors& t) { return f(t).sum(); };
        return hvp(sum, in, in, keep).products[1];
      })};
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    const GradReport report =
        gradcheck([&](const Tensors& in) { return cases[i](in).square(); }, inputs);
    CHECK_MESSAGE(report.ok, report.text);
  }
}

TEST_CASE("functional: constants give zeros, and grad() and the grad mode stay as they were") {
  const Tensor x = normal({2}).requires_grad_(), unused = normal({3}).requires_grad_();
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2, zeros({2}, {.dtype = kF64})}; };
  const NoGrad off;
  const std::vector<Tensors> j = jacobian(f, {x, unused});
  CHECK(values(j[0][0]) == Doubles{2, 0, 0, 2});
  CHECK(values(j[0][1]) == Doubles(6, 0));
  CHECK(values(j[1][0]) == Doubles(4, 0));
  const Tensors v{ones({2}, {.dtype = kF64}), ones({3}, {.dtype = kF64})};
  const FunctionAndProducts moved = jvp(f, {x, unused}, v);
  CHECK(values(moved.products[0]) == Doubles{2, 2});
  CHECK(values(moved.products[1]) == Doubles{0, 0});
  const auto linear = [](const Tensors& in) { return in[0].sum(); };
  CHECK(values(hessian(linear, {x, unused})[0][0]) == Doubles(4, 0));
  CHECK(values(hvp(linear, {x, unused}, v).products[1]) == Doubles{0, 0, 0});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("functional: a matrix of a checkpointed function, and one without elements") {
  const Tensors& in = two_inputs();
  const auto f = [](const Tensors& t) { return checkpoint(scalar, t); };
  const Tensor expected = hessian(scalar, in)[0][0];
  check_near(hessian(f, in)[0][0], expected, 1e-14);
  const auto twice = [](const Tensors& t) { return t[0] * 2; };
  CHECK(jacobian(twice, {zeros({0}, {.dtype = kF64})})[0][0].shape() == Shape{0, 0});
}

TEST_CASE("functional: errors name the function and what does not fit") {
  const Tensor x = normal({2});
  const auto twice = [](const Tensors& in) { return in[0] * 2; };
  const auto nothing = [](const Tensors&) { return Tensor(); };
  CHECK_THROWS_WITH_AS(vjp(twice, {x}), Contains("vjp: v has 0 tensors for 1 outputs"), ShapeError);
  CHECK_THROWS_WITH_AS(
      vjp(twice, {x}, {normal({3})}),
      Contains("vjp: v[0] does not match output 0 (v: f64[3]@cpu, output: f64[2]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(jvp(twice, {x}, {zeros({2})}), Contains("jvp: v[0] does not match input 0"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(jacobian(twice, {tensor({1, 2})}), Contains("input 0 must be floating"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(jacobian(nothing, {x}), Contains("jacobian: the function returned an "),
                       ValueError);
  CHECK_THROWS_WITH_AS(hessian(twice, {x}), Contains("must return one tensor of one element"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(hvp(twice, {x}, {x}), Contains("must return one tensor of one element"),
                       ShapeError);
}
