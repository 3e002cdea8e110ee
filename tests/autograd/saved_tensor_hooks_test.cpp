// Hooks on saved tensors, and saved tensors of a GPU in host memory.
#include "lathe/autograd/saved_tensor_hooks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <thread>
#include <variant>

#include "../cuda_case.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/custom_function.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/cuda.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using doctest::Contains;

namespace {

using Floats = std::vector<float>;
Floats values(const Tensor& t) { return t.to_vector<float>(); }

int packed = 0, unpacked = 0;
/// Keeps a copy.
struct CountingHooks : SavedTensorHooks {
  CountingHooks()
      : SavedTensorHooks(
            [](const Tensor& t) {
              ++packed;
              return t.clone();
            },
            [](const Tensor& copy) {
              ++unpacked;
              return copy;
            }) {
    packed = unpacked = 0;
  }
};

/// Ops that save inputs, outputs and views, a checkpoint and in-place writes.
Tensor mixed(const Tensors& in) {
  const Tensor a = in[0], b = in[1];
  const Tensor h = softmax(matmul(a, transpose(b, 0, 1)), 1) * exp(a[0]);
  const Tensor c = checkpoint([b](const Tensors& t) { return tanh(t[0]) * t[0] * b; }, {h});
  const Tensor d = h.clone();
  d.mul_(c);
  return (c + d / (square(b) + 1)).square();
}

}  // namespace

TEST_CASE("saved tensor hooks: see what recorded ops save, and give it back") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_(), constant = tensor({5.f, 6.f});
  Tensor y;
  {
    const CountingHooks hooks;
    y = (x * constant).exp();
    CHECK(packed == 2);  // constant, for x's gradient, and the result of exp
    constant.exp();      // not recorded
    (x + constant);      // saves nothing
    CHECK(packed == 2);
  }
  (x * x);
  CHECK(packed == 2);
  CHECK(unpacked == 0);
  constant.zero_();  // the copy stays
  y.sum().backward();
  CHECK(unpacked == 2);
  CHECK(values(x.grad())[0] == doctest::Approx(5 * std::exp(5.0)));
}

TEST_CASE("saved tensor hooks: pack to another form, such as half") {
  const Tensor x = rand({1 << 16}).requires_grad_();
  const size_t tensor_bytes = static_cast<size_t>(x.bytes());
  const size_t before = host_allocator().stats().allocated_bytes;
  Tensor y;
  {
    const SavedTensorHooks hooks([](const Tensor& t) { return t.to(kBF16); },
                                 [](const Tensor& t) { return t.to(kF32); });
    y = x.exp().exp().exp();
  }
  // Three outputs in half, and the last one as it is.
  CHECK(host_allocator().stats().allocated_bytes - before == tensor_bytes * 5 / 2);
  const Tensor gradient = grad({y.sum()}, {x})[0];
  const Tensor expected = grad({x.exp().exp().exp().sum()}, {x})[0];
  CHECK((gradient / expected - 1).abs().max().item<float>() < 0.02f);
  CHECK((gradient / expected - 1).abs().max().item<float>() > 0.f);
}

TEST_CASE("saved tensor hooks: gradients and their gradients are those without hooks") {
  const Tensors inputs{randn({3, 3}, {.dtype = kF64}), randn({3, 3}, {.dtype = kF64})};
  const CountingHooks hooks;
  const GradReport once = gradcheck(mixed, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK(packed > 0);
  CHECK(unpacked > 0);
  const GradReport twice = gradgradcheck(mixed, inputs);
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("saved tensor hooks: the innermost scope counts, on its own thread") {
  const Tensor x = tensor({1.f}).requires_grad_();
  int outer = 0, inner = 0;
  const Tensor leaf = tensor({1.f}).requires_grad_();
  const auto count = [leaf](int& n) {
    return [&n, leaf](const Tensor& t) {
      ++n;
      const EnableGrad on;
      (leaf * leaf);  // hooks do not see their own ops
      return t;
    };
  };
  const auto same = [](const Tensor& t) { return t; };
  const SavedTensorHooks outer_hooks(count(outer), same);
  x.exp();
  {
    const SavedTensorHooks inner_hooks(count(inner), same);
    x.exp();
    x.exp();
  }
  x.exp();
  std::thread([&] { x.exp(); }).join();
  CHECK(outer == 2);
  CHECK(inner == 2);
}

TEST_CASE("saved tensor hooks: what the graph keeps is released with it") {
  const Tensor x = rand({1 << 16}).requires_grad_();
  const size_t before = host_allocator().stats().allocated_bytes;
  {
    const CountingHooks hooks;
    for (int i = 0; i < 3; ++i) {
      const Tensor y = x.exp().tanh();
      const Tensor dx = grad({y.sum()}, {x}, {.create_graph = true})[0];
    }
  }
  CHECK(host_allocator().stats().allocated_bytes == before);
}

TEST_CASE("saved tensor hooks: errors of pack and unpack arrive, and a wrong tensor is refused") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_();
  const auto same = [](const Tensor& t) { return t; };
  {
    const SavedTensorHooks hooks([](const Tensor&) -> int { throw std::runtime_error("no room"); },
                                 [](int) { return Tensor(); });
    CHECK_THROWS_WITH(x.exp(), Contains("no room"));
  }
  CHECK(x.exp().requires_grad());
  const auto backward_with = [&](auto unpack) {
    Tensor y;
    {
      const SavedTensorHooks hooks(same, unpack);
      y = x.exp().sum();
    }
    y.backward();
  };
  CHECK_NOTHROW(backward_with(same));
  CHECK_THROWS_WITH(
      backward_with([](const Tensor&) -> Tensor { throw std::runtime_error("lost"); }),
      Contains("lost"));
  CHECK_THROWS_WITH_AS(backward_with([](const Tensor& t) { return t[0]; }),
                       Contains("unpack returned f32[]@cpu for a saved tensor f32[2]@cpu"),
                       ShapeError);
  CHECK_THROWS_AS(backward_with([](const Tensor&) { return Tensor(); }), ShapeError);
  CHECK_THROWS_AS(backward_with([](const Tensor& t) { return t.to(kF64); }), DTypeError);
}

TEST_CASE("SaveOnCpu: on the CPU nothing changes, in-place writes are noticed") {
  const Tensor x = tensor({1.f, 2.f}).requires_grad_();
  const SaveOnCpu scope;
  const Tensor h = x * 1, y = (h * h).sum();
  CHECK(values(grad({y}, {x})[0]) == Floats{2, 4});
  const Tensor z = (h * h).sum();
  h.add_(1.0);
  CHECK_THROWS_WITH_AS(z.backward(), Contains("modified by an in-place operation"), StateError);
}

TEST_CASE("SaveOnCpu: a GPU's saved tensors leave its memory, and gradients keep their bits" *
          test::cuda_case()) {
  const Device gpu("cuda:0");
  manual_seed(4);
  const Tensor w = randn({8, 8, 3, 3}).to(gpu).detach().requires_grad_();
  const Tensor x = randn({2, 8, 16, 16}).to(gpu).contiguous(kChannelsLast).detach();
  const auto run = [&] {
    Tensor h = x;
    for (int i = 0; i < 3; ++i) h = tanh(conv2d(h, w, {.pad = 1}));
    return h;
  };
  std::vector<std::vector<float>> gradients;
  std::vector<size_t> held;
  const auto measure = [&] {
    const size_t before = cuda::memory_allocated();
    const Tensor y = run();
    held.push_back(cuda::memory_allocated() - before);
    const Tensor dw = grad({(y * y).sum()}, {w})[0];
    gradients.push_back(dw.to_vector<float>());
  };
  measure();
  {
    const SaveOnCpu scope;
    measure();
  }
  CHECK(gradients[0] == gradients[1]);
  const size_t tensor_bytes = static_cast<size_t>(x.bytes());
  CHECK(held[0] >= 3 * tensor_bytes);  // the outputs of tanh
  CHECK(held[1] <= 2 * tensor_bytes);  // the last one alone

  const SaveOnCpu scope;
  const Tensor z = (w * w).sum();
  {
    const NoGrad off;
    w.mul_(2.0);  // noticed, because parameters are not packed
  }
  CHECK_THROWS_WITH_AS(z.backward(), Contains("modified by an in-place operation"), StateError);
}
