// Fused groups are ops to the rest of autograd: checkpoint(), gradients that are not there, half
// gradients of repeated values, InferenceMode.
#include <doctest/doctest.h>

#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/graph/compile.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

constexpr int64_t kFused = 40000;  // smaller groups run op by op

Tensor leaf(const Tensor& t) { return t.detach().requires_grad_(); }

}  // namespace

TEST_CASE("fused groups: checkpoint() sees that they would be recorded") {
  const auto sums = [](const Tensors& t) { return Tensors{(t[0] * 2 + square(t[0])).sum()}; };
  const auto values = [](const Tensors& t) { return Tensors{t[0] * 2 + square(t[0])}; };
  const auto repeated = [](const Tensors& t) {  // no plan: one by one
    return Tensors{t[0] * t[1] + t[0]};
  };
  const Tensor x = randn({200, 200}, {.dtype = kF64}), s = randn({200}, {.dtype = kF64});
  for (const auto& f : {std::function<Tensors(const Tensors&)>(sums), {values}, {repeated}}) {
    const jit::CompiledFunction compiled = jit::compile(f);
    const Tensor a = leaf(x), b = leaf(x), c = leaf(s), d = leaf(s);
    const Tensor y = autograd::checkpoint([&](const Tensors& t) { return compiled(t); }, {a, c})[0];
    REQUIRE(y.requires_grad());
    y.sum().backward();
    f({b, d})[0].sum().backward();
    CHECK(equal(a.grad(), b.grad()));
    CHECK(c.grad().defined() == d.grad().defined());
    if (c.grad().defined()) CHECK(allclose(c.grad(), d.grad()));
  }
}

TEST_CASE("fused groups: an input that a result does not depend on has no gradient") {
  const auto f = [](const Tensors& t) { return Tensors{t[0] * 2 + t[1], t[2] * 3 + 1}; };
  const jit::CompiledFunction compiled = jit::compile(f);
  for (const Shape& second : {Shape{200, 200}, Shape{1, 200}}) {  // by a plan, and one by one
    CAPTURE(second);
    const Tensors x = {leaf(randn({200, 200})), leaf(randn(second)), leaf(randn({200, 200}))};
    compiled(x)[0].sum().backward();
    CHECK(x[0].grad().defined());
    CHECK(x[1].grad().defined());
    CHECK_FALSE(x[2].grad().defined());
  }
}

TEST_CASE("fused groups: half gradients of repeated values do not overflow by parts") {
  const auto f = [](const Tensors& t) { return Tensors{t[0] * t[1] + t[0]}; };
  const jit::CompiledFunction compiled = jit::compile(f);
  constexpr int64_t kEach = 32768;
  const Tensor dy = cat({full({kEach}, 10.0f), full({kEach}, -10.0f)}, 0).to(kF16);
  const auto gradient = [&](const auto& function) {
    const Tensor x = ones({2 * kEach}, {.dtype = kF16}), s = leaf(ones({1}, {.dtype = kF16}));
    function(Tensors{x, s})[0].backward(dy);
    return s.grad();
  };
  CHECK(equal(gradient(compiled), gradient(f)));
}

TEST_CASE("fused groups: results under InferenceMode take part in no graph") {
  const jit::CompiledFunction compiled =
      jit::compile([](const Tensors& t) { return Tensors{t[0] * 2 + 1}; });
  Tensor y;
  {
    const InferenceMode on;
    y = compiled({randn({kFused})})[0];
  }
  CHECK_THROWS_AS(mul(y, leaf(ones({kFused}))), StateError);
}
