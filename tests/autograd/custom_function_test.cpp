// Custom functions: what reaches backward, derivatives of derivatives, memory, and the errors.
#include "lathe/autograd/custom_function.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <optional>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/tests/autograd/leaf.h"

using namespace lathe;
using doctest::Contains;
using lathe::test::Floats, lathe::test::leaf, lathe::test::values;

namespace {

/// scale * x^3
struct Cube : CustomFunction<Cube> {
  struct Context : FunctionContext {
    double scale = 1;
  };
  static Tensor forward(Context& context, const Tensor& x, double scale) {
    context.scale = scale;
    context.save_for_backward({x});
    return x * x * x * scale;
  }
  static Tensors backward(Context& context, const Tensors& dy) {
    const Tensor x = context.saved_tensors()[0];
    return {dy[0] * x * x * (3 * context.scale)};
  }
};

/// x, or x * scale
struct Scaled : CustomFunction<Scaled> {
  static inline std::vector<bool> needs;

  static Tensor forward(Context& context, const Tensor& x, const std::optional<Tensor>& scale) {
    needs = {context.needs_input_grad(0), context.needs_input_grad(1)};
    context.save_for_backward({x, scale.value_or(Tensor())});
    return scale ? x * *scale : x.clone();
  }
  static Tensors backward(Context& context, const Tensors& dy) {
    const Tensors in = context.saved_tensors();
    return {in[1].defined() ? dy[0] * in[1] : dy[0], in[1].defined() ? dy[0] * in[0] : Tensor()};
  }
};

/// a + b, from any container of two
struct Total : CustomFunction<Total> {
  static Tensor forward(Context&, const auto& two) { return two[0] + two[1]; }
  static Tensors backward(Context&, const Tensors& dy) { return {dy[0], dy[0]}; }
};

/// (a * b, exp(a), the number of elements), from a list of two.
struct Several : CustomFunction<Several> {
  static inline std::vector<bool> needs, defined;
  static inline bool zeros = true;

  static Tensors forward(Context& context, const Tensors& in, bool reversed) {
    needs = {context.needs_input_grad(0), context.needs_input_grad(1), context.needs_input_grad(2)};
    const Tensor product = in[0] * in[1], power = in[0].exp();
    context.save_for_backward({in[0], in[1], power});
    context.set_materialize_zeros(zeros);
    const Tensor count = tensor({in[0].numel()});
    return reversed ? Tensors{count, power, product} : Tensors{product, power, count};
  }
  static Tensors backward(Context& context, const Tensors& dy) {
    defined = {dy[0].defined(), dy[1].defined(), dy[2].defined()};
    const Tensors kept = context.saved_tensors();
    Tensor da, db;
    if (dy[0].defined()) da = dy[0] * kept[1], db = dy[0] * kept[0];
    if (dy[1].defined()) da = da.defined() ? da + dy[1] * kept[2] : dy[1] * kept[2];
    return {da, db};
  }
};

/// What the tests of errors set.
struct Wrong : CustomFunction<Wrong> {
  static inline Tensors gradients;
  static inline bool writes = false;
  static inline bool empty = false;

  static Tensor forward(Context&, const Tensor& x, const Tensor&) {
    if (writes) x.add_(1.0);
    return empty ? Tensor() : x * 2;
  }
  static Tensors backward(Context&, const Tensors&) { return gradients; }
};

/// Two results of one input; `constant` is marked, `half` is not.
struct Marked : CustomFunction<Marked> {
  static Tensors forward(Context& context, const Tensor& x) {
    const Tensor constant = x * 10, half = x * 0.5;
    context.mark_non_differentiable({constant});
    context.save_for_backward({constant, half});
    return {constant, half};
  }
  static Tensor backward(Context& context, const Tensors& dy) {
    CHECK(values(dy[0]) == Floats{0, 0});
    CHECK_FALSE(context.saved_tensors()[0].requires_grad());
    return dy[1] * 0.5;
  }
};

/// x itself, with the gradient reversed.
struct Reverse : CustomFunction<Reverse> {
  static Tensor forward(Context&, const Tensor& x) { return x; }
  static Tensor backward(Context&, const Tensors& dy) { return -dy[0]; }
};

/// (exp(x), exp(2x)), both gradients computed from the saved outputs.
struct Powers : CustomFunction<Powers> {
  static Tensors forward(Context& context, const Tensor& x) {
    const Tensors ys{x.exp(), (x * 2).exp()};
    context.save_for_backward(ys);
    return ys;
  }
  static Tensor backward(Context& context, const Tensors& dy) {
    const Tensors ys = context.saved_tensors();
    return dy[0] * ys[0] + dy[1] * ys[1] * 2;
  }
};

Tensor squared_sum(const Tensors& ys) {
  Tensor sum = ys[0].square().sum();
  for (size_t i = 1; i < ys.size(); ++i) sum = sum + ys[i].square().sum();
  return sum;
}

}  // namespace

TEST_CASE("custom function: values, gradients and higher derivatives are those of its formula") {
  const Tensor x = leaf({1, 2});
  const Tensor y = Cube::apply(x, 2.0);
  CHECK(values(y) == Floats{2, 16});
  CHECK(y.grad_fn() == "Cube");
  y.sum().backward();
  CHECK(values(x.grad()) == Floats{6, 24});

  const auto f = [](const Tensors& in) { return Cube::apply(in[0], 0.5).square(); };
  const Tensors inputs{randn({2, 3}, {.dtype = kF64})};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);

  const Tensor cube = Cube::apply(x, 1.0).sum();
  const Tensor first = grad({cube}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {x}, {.create_graph = true})[0];
  CHECK(values(grad({second.sum()}, {x})[0]) == Floats{6, 6});
}

TEST_CASE("custom function: several inputs and outputs, in any combination of those used") {
  Several::zeros = true;
  const auto f = [](const Tensors& in) { return squared_sum(Several::apply(in, false)); };
  const auto only_power = [](const Tensors& in) { return Several::apply(in, false)[1].square(); };
  const Tensors inputs{randn({4}, {.dtype = kF64}), randn({4}, {.dtype = kF64})};
  for (const auto& function : {std::function<Tensor(const Tensors&)>(f), {only_power}}) {
    const GradReport once = gradcheck(function, inputs), twice = gradgradcheck(function, inputs);
    CHECK_MESSAGE(once.ok, once.text);
    CHECK_MESSAGE(twice.ok, twice.text);
  }
  const Tensor a = leaf({1}), b = tensor({3.f});
  const Tensors ys = Several::apply(Tensors{a, b}, false);
  CHECK(Several::needs == std::vector<bool>{true, false, false});
  CHECK(ys[0].requires_grad());
  CHECK_FALSE(ys[2].requires_grad());  // integers have no gradient
  ys[0].sum().backward();
  CHECK(values(a.grad()) == Floats{3});
}

TEST_CASE(
    "custom function: an output that nothing used has a gradient of zeros, or none on request") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  for (const bool zeros : {true, false}) {
    Several::zeros = zeros;
    Several::apply(Tensors{a, b}, false)[0].sum().backward();
    CHECK(Several::defined == std::vector<bool>{true, zeros, zeros});
    Several::apply(Tensors{a, b}, false)[1].sum().backward();
    CHECK(Several::defined == std::vector<bool>{zeros, true, zeros});
  }
  Several::zeros = true;
  CHECK(values(b.grad()) == Floats{2, 4});
}

TEST_CASE("custom function: outputs marked as constants have no history") {
  const Tensor x = leaf({1, 2});
  const Tensors ys = Marked::apply(x);
  CHECK_FALSE(ys[0].requires_grad());
  CHECK(ys[1].requires_grad());
  (ys[0] * ys[1]).sum().backward();
  CHECK(values(x.grad()) == Floats{5, 10});
}

TEST_CASE("custom function: saved outputs are differentiated again") {
  const auto f = [](const Tensors& in) { return squared_sum(Powers::apply(in[0])); };
  const Tensors inputs{randn({3}, {.dtype = kF64})};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("custom function: an input that is returned becomes another tensor") {
  const Tensor x = leaf({1, 2});
  const Tensor y = Reverse::apply(x);
  CHECK_FALSE(y.is_same(x));
  CHECK(x.is_leaf());
  (y * 3).sum().backward();
  CHECK(values(x.grad()) == Floats{-3, -3});
  const Tensor h = x * 2, z = Reverse::apply(h);
  z.mul_(5.0);  // its own memory: h stays
  CHECK(values(h) == Floats{2, 4});
  x.set_grad({});
  z.sum().backward();
  CHECK(values(x.grad()) == Floats{-10, -10});
}

TEST_CASE("custom function: hooks, retain_grad and retain_graph work on each output") {
  const Tensor x = leaf({1});
  const Tensors ys = Powers::apply(x);
  ys[1].retain_grad();
  ys[0].register_hook([](const Tensor& g) { return g * 0; });
  (ys[0] + ys[1] * 4).sum().backward({.retain_graph = true});
  CHECK(values(ys[1].grad()) == Floats{4});
  const float once = values(x.grad())[0];
  CHECK(once == doctest::Approx(8 * std::exp(2.0)));
  ys[1].backward(tensor({4.f}));
  CHECK(values(x.grad())[0] == doctest::Approx(2 * once));
  CHECK_THROWS_WITH_AS(ys[1].backward(), Contains("the graph through Powers was freed"),
                       StateError);
}

TEST_CASE("custom function: nothing is recorded or kept where no gradient is wanted") {
  CHECK_FALSE(Cube::apply(tensor({1.f}), 1.0).requires_grad());
  const Tensor x = leaf({1});
  const NoGrad off;
  CHECK_FALSE(Several::apply(Tensors{x, x}, false)[0].requires_grad());
  CHECK(Several::needs == std::vector<bool>{false, false, false});
}

TEST_CASE("custom function: memory is released with the last handle, saved outputs included") {
  const Tensor x = rand({1 << 16}).requires_grad_();
  const size_t before = host_allocator().stats().allocated_bytes;
  { const Tensors ys = Powers::apply(x); }
  CHECK(host_allocator().stats().allocated_bytes == before);
  {
    const Tensors ys = Powers::apply(x);
    const Tensor gradient = grad({ys[0].sum()}, {x}, {.create_graph = true})[0];
  }
  CHECK(host_allocator().stats().allocated_bytes == before);
}

TEST_CASE("custom function: parameters, optionals and containers are inputs like tensors") {
  nn::Linear layer(2, 2, {.bias = false});  // its weight is an nn::Parameter
  const Tensor want = layer.weight * layer.weight * 6;
  Cube::apply(layer.weight, 2.0).sum().backward();
  CHECK(values(layer.weight.grad()) == values(want));

  const std::optional<Tensor> given = leaf({2, 3}), missing;
  Scaled::apply(*given, missing).sum().backward();
  CHECK(Scaled::needs == std::vector<bool>{true, false});
  CHECK(values(given->grad()) == Floats{1, 1});
  Scaled::apply(tensor({5.f, 7.f}), given).sum().backward();
  CHECK(Scaled::needs == std::vector<bool>{false, true});
  CHECK(values(given->grad()) == Floats{6, 8});

  const std::vector<nn::Parameter> parameters(2, layer.weight);
  layer.weight.set_grad({});
  Total::apply(parameters).sum().backward();
  CHECK(values(layer.weight.grad()) == Floats{2, 2, 2, 2});
  const Tensor x = leaf({1, 2});
  Total::apply(std::array{x, x * 2}).sum().backward();
  CHECK(values(x.grad()) == Floats{3, 3});
}

TEST_CASE("custom function: a saved tensor that is written before backward is an error") {
  const Tensor x = leaf({1, 2}), h = x * 1;
  const Tensor y = Cube::apply(h, 1.0);
  h.add_(1.0);
  CHECK_THROWS_WITH_AS(y.sum().backward(), Contains("a tensor that Cube saved was modified"),
                       StateError);
}

TEST_CASE("custom function: errors name the function") {
  const Tensor x = leaf({1, 2}), w = leaf({3});
  const auto backward_with = [&](Tensors gradients) {
    Wrong::gradients = std::move(gradients);
    Wrong::apply(x, w).sum().backward();
  };
  const Tensor good = tensor({1.f, 1.f});
  CHECK_NOTHROW(backward_with({good, {}}));
  CHECK_THROWS_WITH_AS(backward_with({good}),
                       Contains("Wrong returned 1 gradients for 2 input tensors"), ValueError);
  CHECK_THROWS_WITH_AS(
      backward_with({good, good}),
      Contains("Wrong returned a gradient f32[2]@cpu for input 1, which is f32[1]@cpu"),
      ShapeError);
  CHECK_THROWS_WITH_AS(
      backward_with({good.to(kF64), {}}),
      Contains("Wrong returned a gradient f64[2]@cpu for input 0, which is f32[2]@cpu"),
      DTypeError);

  Wrong::writes = true;
  const Tensor h = x * 1, constant = tensor({1.f});
  CHECK_THROWS_WITH_AS(Wrong::apply(h, w), Contains("Wrong: forward wrote input 0 in place"),
                       StateError);
  CHECK_NOTHROW(Wrong::apply(constant, w));  // needs no gradient
  Wrong::writes = false;
  Wrong::empty = true;
  CHECK_THROWS_WITH_AS(Wrong::apply(x, w), Contains("Wrong: forward returned an undefined output"),
                       ValueError);
  Wrong::empty = false;
}

TEST_CASE("custom function: a failed pass can be repeated, and nothing of it stays behind") {
  const Tensor x = leaf({2});
  const Tensors ys = Powers::apply(x);
  const Tensor sum = (ys[0] * 0 + ys[1]).sum();
  const int64_t hook = ys[0].register_hook([](const Tensor&) -> Tensor { throw 1; });
  CHECK_THROWS_AS(sum.backward({.retain_graph = true}), int);
  ys[0].remove_hook(hook);
  sum.backward();
  CHECK(values(x.grad())[0] == doctest::Approx(2 * std::exp(4.0)));
}
