// The engine: accumulation, freeing, modes, hooks, versions, depth. threads_test.cpp: several
// passes at once; failure_test.cpp: passes that throw; inplace_test.cpp: writes in place.
#include <doctest/doctest.h>
#include <pthread.h>

#include <cmath>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/tests/autograd/leaf.h"

using namespace lathe;
using doctest::Contains;
using lathe::test::Floats, lathe::test::leaf, lathe::test::values;

TEST_CASE("backward: gradients accumulate over passes and over paths") {
  const Tensor x = leaf({1, 2});
  (x * x).sum().backward();
  CHECK(values(x.grad()) == Floats{2, 4});
  const Tensor held = x.grad();
  (x * 3 + x).sum().backward();
  CHECK(values(x.grad()) == Floats{6, 8});
  CHECK(held.is_same(x.grad()));  // added in place: holders see the sum
}

TEST_CASE("backward: the gradient of a sum is not shared memory") {
  const Tensor a = leaf({1}), b = leaf({2});
  (a + b).backward();
  CHECK_FALSE(a.grad().shares_storage(b.grad()));
  a.set_grad({}), b.set_grad({});
  (a + b).backward({.create_graph = true});
  (a + b).backward();
  CHECK(values(a.grad()) == Floats{2});
  CHECK(values(b.grad()) == Floats{2});
}

TEST_CASE("backward: a gradient that a hook keeps a view of is not added to") {
  const Tensor x = leaf({1});
  Tensor kept;
  x.register_hook([&](const Tensor& g) {
    if (!kept.defined()) kept = g.detach();
    return Tensor();
  });
  (x * 3).backward();
  (x * 3).backward();
  CHECK(values(x.grad()) == Floats{6});
  CHECK(values(kept) == Floats{3});
}

TEST_CASE("backward: a second pass into a gradient that an op saved is noticed") {
  const Tensor v = leaf({1, 2}), w = leaf({3, 4});
  (w * 2).sum().backward();
  const Tensor y = (v * w.grad()).sum();
  const uint32_t version = w.grad().version();
  (w * 2).sum().backward();
  CHECK(w.grad().version() > version);
  CHECK_THROWS_WITH_AS(y.backward(), Contains("modified by an in-place operation"), StateError);
  CHECK_FALSE(v.grad().defined());
}

TEST_CASE("backward: an output of several elements needs a gradient that fits") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS((x * 2).backward(), Contains("must have one element (output: f32[2]@cpu)"),
                       ShapeError);
  CHECK_THROWS_AS((x * 2).backward(tensor({1.f})), ShapeError);
  CHECK_FALSE(x.grad().defined());
  (x * 2).backward(tensor({1.f, 10.f}));
  CHECK(values(x.grad()) == Floats{2, 20});
  CHECK_THROWS_AS(tensor({1.f}).backward(), StateError);
}

TEST_CASE("backward: the graph is freed unless retained") {
  const Tensor x = leaf({3});
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(values(x.grad()) == Floats{12});
  CHECK_THROWS_WITH_AS(y.backward(), Contains("freed by an earlier backward pass"), StateError);
}

TEST_CASE("grad modes: nothing is recorded under NoGrad, and scopes nest") {
  const Tensor x = leaf({1});
  {
    const NoGrad off;
    CHECK_FALSE((x * 2).requires_grad());
    {
      const EnableGrad on;
      CHECK((x * 2).requires_grad());
    }
    CHECK_FALSE(grad_enabled());
  }
  CHECK((x * 2).requires_grad());
}

TEST_CASE("InferenceMode: a result cannot be saved for a later backward pass") {
  const Tensor x = leaf({1});
  Tensor y;
  {
    const InferenceMode on;
    const EnableGrad no_effect;
    y = x * 2;
  }
  CHECK_FALSE(y.requires_grad());
  CHECK_THROWS_WITH_AS(x * y, Contains("made in InferenceMode"), StateError);
  CHECK_THROWS_AS(y.requires_grad_(), StateError);
  CHECK((x * y.clone()).requires_grad());
}

TEST_CASE("requires_grad_: integers and results of ops are refused") {
  CHECK_THROWS_AS(tensor({1, 2}).requires_grad_(), DTypeError);
  CHECK_THROWS_WITH_AS((leaf({1}) * 2).requires_grad_(false), Contains("result of mul"),
                       StateError);
}

TEST_CASE("hooks: see and replace gradients; retain_grad keeps them") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3;
  y.retain_grad();
  int calls = 0;
  y.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 10.0;
  });
  const int64_t on_leaf = x.register_hook([&](const Tensor& g) {
    CHECK(values(g) == Floats{30, 30});
    ++calls;
    return Tensor();
  });
  y.sum().backward({.retain_graph = true});
  CHECK(calls == 2);
  CHECK(values(y.grad()) == Floats{10, 10});
  CHECK(values(x.grad()) == Floats{30, 30});
  x.remove_hook(on_leaf);
  y.sum().backward();
  CHECK(calls == 3);
}

TEST_CASE("hooks: what a leaf's hook gives is what grad() returns") {
  const Tensor x = leaf({1, 2});
  x.register_hook([](const Tensor& g) { return g * 10.0; });
  CHECK(values(grad({(x * 3).sum()}, {x})[0]) == Floats{30, 30});
  const Tensor again = grad({(x * x).sum()}, {x}, {.create_graph = true})[0];
  CHECK(values(again) == Floats{20, 40});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("hooks: a replacement that does not fit is refused") {
  const Tensor x = leaf({1, 2});
  x.register_hook([](const Tensor&) { return zeros({7}); });
  CHECK_THROWS_WITH_AS(x.sum().backward(),
                       Contains("replaced the gradient f32[2]@cpu by f32[7]@cpu"), ShapeError);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("retain_grad: follows the tensor through an in-place write, and its end") {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.retain_grad();
  y.add_(x);
  (y * 5.0).sum().backward();
  CHECK(values(y.grad()) == Floats{5, 5});
  Tensor gone = x * 2;
  gone.retain_grad();
  gone.add_(1.0);
  const Tensor z = gone.sum();
  gone = Tensor();
  z.backward();
  CHECK(values(x.grad()) == Floats{17, 17});
}

TEST_CASE("set_data: between forward and backward is noticed") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor y = (x * w).sum();
  w.set_data(tensor({5.f, 6.f}));
  CHECK_THROWS_WITH_AS(y.backward(), Contains("given other data by set_data"), StateError);

  // Other numbers of the same memory.
  const Tensor flat = arange(8).to(kF32);
  const Tensor part = flat.slice(0, 0, 4).detach().requires_grad_();
  const Tensor squared = (part * part).sum();
  part.set_data(flat.slice(0, 4, 8));
  CHECK_THROWS_AS(squared.backward(), StateError);
}

TEST_CASE("backward: a gradient set to expanded memory is not added to three times") {
  const Tensor x = leaf({1, 2, 3});
  x.set_grad(zeros({1}).expand({3}));
  x.sum().backward();
  CHECK(values(x.grad()) == Floats{1, 1, 1});
}

TEST_CASE("grad: returns gradients without touching grad(), for leaves and results") {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor z = y * y;  // x^4
  const Tensors g = grad({z}, {x, y});
  CHECK(values(g[0]) == Floats{32});
  CHECK(values(g[1]) == Floats{8});
  CHECK_FALSE(x.grad().defined());
  const Tensor unused = leaf({1});
  CHECK_THROWS_WITH_AS(grad({x * 1.0}, {unused}), Contains("input 0 is not used"), StateError);
  CHECK_FALSE(grad({x * 1.0}, {unused}, {.allow_unused = true})[0].defined());
  CHECK_THROWS_AS(grad({x * 1.0}, {tensor({1.f})}), StateError);
}

TEST_CASE("grad: works inside NoGrad when the forward pass was recorded outside") {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  const NoGrad off;
  CHECK(values(grad({y}, {x}, {.create_graph = false})[0]) == Floats{6});
}

TEST_CASE("grad: derivatives of derivatives, four deep") {
  const Tensor x = tensor({1.5}, kF64).requires_grad_();
  Tensor y = pow(x, 5);
  const double expected[] = {5 * std::pow(1.5, 4), 20 * std::pow(1.5, 3), 60 * std::pow(1.5, 2),
                             120 * 1.5};
  for (const double want : expected) {
    y = grad({y}, {x}, {.create_graph = true})[0];
    CHECK(y.item<double>() == doctest::Approx(want).epsilon(1e-12));
  }
}

TEST_CASE("engine: a closure's wrong shape is named, not propagated") {
  const Tensor x = leaf({1, 2});
  const Tensor y = empty_like(x);
  y.copy_(x.detach());
  autograd::record("wrong", y, {x},
                   [](const Tensor&, const autograd::Needs&) { return Tensors{zeros({3})}; });
  CHECK_THROWS_WITH_AS(
      y.sum().backward(),
      Contains("wrong returned a gradient f32[3]@cpu for input 0, which is f32[2]@cpu"),
      ShapeError);
}

TEST_CASE("engine: saved outputs own no cycle, so memory goes with the last handle") {
  bool released = false;
  {
    float data[2] = {1, 2};
    const Tensor x = from_blob(data, {2}, kF32, kCPU, [&] { released = true; }).requires_grad_();
    const Tensor y = tanh(sigmoid(relu(exp(x))));
    CHECK(y.requires_grad());
  }
  CHECK(released);
}

namespace {
void* deep_chain(void*) {
  const Tensor x = tensor({1.f}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y + x;
  y.backward();
  const bool ok = x.grad().item<float>() == 100'001.f;
  y = Tensor();
  Tensor unused = x;  // and a chain that is released without ever being walked
  for (int i = 0; i < 100'000; ++i) unused = -unused;
  unused = Tensor();
  return ok ? nullptr : reinterpret_cast<void*>(1);
}
}  // namespace

TEST_CASE("engine: a hundred thousand nodes are walked and released on a 256 KiB stack") {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, deep_chain, nullptr) == 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  pthread_attr_destroy(&attributes);
  CHECK(result == nullptr);
}

TEST_CASE("set_data: identity and gradient flag stay, values change for every holder") {
  const Tensor w = leaf({1, 2});
  const Tensor held = w;
  w.set_data(tensor({5.f, 6.f, 7.f}));
  CHECK(values(held) == Floats{5, 6, 7});
  CHECK(held.requires_grad());
  CHECK_THROWS_AS(w.set_data(tensor({1, 2})), DTypeError);
  CHECK_THROWS_AS((w * 2).set_data(w), StateError);
}

TEST_CASE("set_grad: shape, dtype and device must fit; undefined drops it") {
  const Tensor w = leaf({1, 2});
  CHECK_THROWS_AS(w.set_grad(tensor({1.f})), ShapeError);
  CHECK_THROWS_AS(w.set_grad(tensor({1.0, 2.0}, kF64)), DTypeError);
  w.set_grad(tensor({1.f, 2.f}));
  CHECK(values(w.grad()) == Floats{1, 2});
  w.set_grad({});
  CHECK_FALSE(w.grad().defined());
}
