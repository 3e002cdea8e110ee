// Graphs are released, whatever was written in place after an op had kept it: what the ops kept goes
// when the last handle goes, without a backward pass.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "lathe/autograd/custom_function.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/saved_tensor_hooks.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

/// A tensor of 4 x 4 numbers that says when its memory goes.
Tensor watched(std::shared_ptr<bool>& gone, bool requires_grad) {
  gone = std::make_shared<bool>(false);
  auto numbers = std::make_shared<std::vector<float>>(16, 0.5F);
  float* const data = numbers->data();
  const Tensor x = from_blob(data, {4, 4}, kF32, kCPU, [gone, numbers] { *gone = true; });
  return x.requires_grad_(requires_grad);
}

struct Squared : CustomFunction<Squared> {
  static Tensor forward(Context& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x;
  }
  static Tensor backward(Context& context, const Tensors& dy) {
    return dy[0] * 2 * context.saved_tensors()[0];
  }
};

struct Pattern {
  const char* what;
  // From a tensor that nobody else holds: a graph in which something was written after it was kept.
  std::function<void(const Tensor& h, const Tensor& x)> f;
};
const Pattern kPatterns[] = {
    {"its own square", [](const Tensor& h, const Tensor&) { h.mul_(h * h); }},
    {"itself", [](const Tensor& h, const Tensor&) { h.mul_(h); }},
    {"a product that kept it", [](const Tensor& h, const Tensor& x) { h.add_(h * x); }},
    {"a constant becomes a result",
     [](const Tensor&, const Tensor& x) {
       const Tensor c = ones({4, 4});
       c.add_(x * c);
     }},
    {"a view of it is written", [](const Tensor& h, const Tensor&) { h[0].mul_((h * h)[0]); }},
    {"a view was kept", [](const Tensor& h, const Tensor&) { h.mul_(h.t() * h.t()); }},
    {"a sibling view was kept", [](const Tensor& h, const Tensor&) { h[0].mul_(h[1] * h[1]); }},
    {"an output was kept",
     [](const Tensor& h, const Tensor&) {
       const Tensor y = h.exp();
       y.mul_(y * h);
     }},
    {"a matrix product", [](const Tensor& h, const Tensor& x) { h.copy_(matmul(h, x)); }},
    {"a custom function", [](const Tensor& h, const Tensor&) { h.add_(Squared::apply(h)); }},
    {"hooks that leave it as it is",
     [](const Tensor& h, const Tensor&) {
       const SaveOnCpu hooks;
       h.mul_(h * h);
     }},
};

}  // namespace

TEST_CASE("released: a tensor written in place after an op kept it does not keep itself alive") {
  for (const Pattern& p : kPatterns) {
    CAPTURE(p.what);
    std::shared_ptr<bool> gone;
    {
      const Tensor x = watched(gone, true);
      p.f(x * 1.5, x);
      CHECK(!*gone);
    }
    CHECK(*gone);
  }
}

TEST_CASE("released: also after a backward pass that failed, and with second derivatives") {
  std::shared_ptr<bool> gone;
  {
    const Tensor x = watched(gone, true);
    const Tensor h = x * 1.5, y = h * h;
    h.mul_(y);
    CHECK_THROWS_AS(h.sum().backward(), StateError);  // y needs what was overwritten
  }
  CHECK(*gone);
  {
    const Tensor x = watched(gone, true);
    const Tensor h = x * 1.5, y = (h * h * h).sum();
    const Tensor slope = grad({y}, {h}, {.create_graph = true})[0];
    h.add_(1.0);
    CHECK_THROWS_AS(slope.sum().backward(), StateError);
  }
  CHECK(*gone);
}

TEST_CASE("released: 10,000 graphs that are walked, dropped or thrown out of") {
  int left = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::shared_ptr<bool> gone;
    try {
      const Tensor x = watched(gone, true);
      const Tensor y = matmul((x * 2).tanh(), x).sum();
      if (i % 3 == 0) y.backward();
      if (i % 3 == 1) matmul(y * x, ones({3, 5}));  // throws
    } catch (const ShapeError&) {
    }
    left += *gone ? 0 : 1;
  }
  CHECK(left == 0);
}

TEST_CASE("saved: what an op kept has its history where gradients are recorded") {
  const Tensor x = tensor({2.0, 3.0}, kF64).requires_grad_();
  const Tensor h = x * x;          // h is no leaf
  const Tensor y = (h * h).sum();  // x^4
  const Tensor first = grad({y}, {x}, {.create_graph = true})[0];
  CHECK(first.to_vector<double>() == std::vector<double>{32, 108});
  const Tensor second = grad({first.sum()}, {x}, {.create_graph = true})[0];
  CHECK(second.to_vector<double>() == std::vector<double>{48, 108});
  const Tensor third = grad({second.sum()}, {x})[0];
  CHECK(third.to_vector<double>() == std::vector<double>{48, 72});

  // Values of the forward pass, whatever a constant shows later.
  const Tensor c = tensor({5.0, 7.0}, kF64), z = (x * c).sum();
  c.set_data(tensor({1.0, 1.0}, kF64));
  CHECK(grad({z}, {x})[0].to_vector<double>() == std::vector<double>{5, 7});

  // A view whose base is written before it is kept has the new history.
  const Tensor base = x * 1.0;
  const Tensor view = base[0];
  base.mul_(3);
  CHECK(grad({view * view}, {x})[0].to_vector<double>() == std::vector<double>{36, 0});
}
