// Memory that runs out in a checkpoint, a custom function, hooks or a line of functional.h: nothing
// that outlives the call has changed.
#include <doctest/doctest.h>

#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/custom_function.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/functional.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/saved_tensor_hooks.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/random/generator.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;

namespace {

/// (x^2, exp(x))
struct Both : CustomFunction<Both> {
  static Tensors forward(Context& context, const Tensor& x) {
    const Tensors ys{x * x, x.exp()};
    context.save_for_backward({x, ys[1]});
    return ys;
  }
  static Tensor backward(Context& context, const Tensors& dy) {
    const Tensors kept = context.saved_tensors();
    return dy[0] * kept[0] * 2 + dy[1] * kept[1];
  }
};

Tensor loss_of(const Tensor& x) {
  const SavedTensorHooks hooks([](const Tensor& t) { return t.clone(); },
                               [](const Tensor& t) { return t; });
  const auto block = [](const Tensors& in) {
    const Tensors ys = Both::apply(dropout(in[0], {.p = 0.5}));
    return ys[0] * ys[1];
  };
  return (checkpoint(block, {x * 2}) + Both::apply(x)[1]).sum();
}

}  // namespace

TEST_CASE("memory failure: a pass through checkpoints, custom functions and hooks fails whole") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_();
  manual_seed(1);
  loss_of(x).backward();
  const std::vector<float> expected = x.grad().to_vector<float>();
  for (int64_t n = 1;; ++n) {
    REQUIRE(n < 200);
    x.set_grad({});
    manual_seed(1);
    const Tensor loss = loss_of(x);
    const Generator::State before = default_generator().state();
    try {
      const ArmedFault fault(host_allocator().fault(), n, FaultPoint::kForever);
      loss.backward();
    } catch (const OutOfMemoryError&) {
      CHECK_FALSE(x.grad().defined());
      CHECK(default_generator().state() == before);
      CHECK(grad_enabled());
      CHECK_FALSE(Autocast::active());
      continue;
    }
    CHECK(x.grad().to_vector<float>() == expected);
    CHECK(n > 10);
    break;
  }
}

TEST_CASE("memory failure: a forward pass leaves no scope open and no memory behind") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_();
  const auto forward = [&] {
    loss_of(x);
    hessian([](const Tensors& in) { return in[0].exp().sum(); }, {x});
  };
  forward();
  const size_t before = host_allocator().stats().allocated_bytes;
  for (int64_t n = 1;; ++n) {
    REQUIRE(n < 200);
    bool failed = false;
    try {
      const ArmedFault fault(host_allocator().fault(), n, FaultPoint::kForever);
      forward();
    } catch (const OutOfMemoryError&) {
      failed = true;
    }
    CHECK(grad_enabled());
    CHECK((x * 1).requires_grad());
    CHECK(host_allocator().stats().allocated_bytes == before);
    if (!failed) break;
  }
}
