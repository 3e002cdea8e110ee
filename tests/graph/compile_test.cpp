// compile: kinds of inputs, what is traced again, and what is not traced at all.
#include "lathe/graph/compile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/tests/cuda_case.h"

using namespace lathe;

namespace {

/// The Huber loss, which counts its calls.
struct Huber {
  int* calls;

  Tensors operator()(const Tensors& t) const {
    ++*calls;
    const Tensor d = t[0] - t[1], size = d.abs();
    const Tensor inner = d.square() * 0.5, outer = size - 0.5, is_inner = size < 1;
    return {where(is_inner, inner, outer).mean()};
  }
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("compile: a loss with its gradients, traced once for all batches") {
  int calls = 0;
  const jit::CompiledFunction loss = jit::compile(Huber{&calls});
  CHECK(loss.explain().empty());
  for (const int64_t batch : {40000, 7, 40001}) {
    const Tensor x = randn({batch, 3}).requires_grad_(), y = randn({batch, 3});
    const Tensor got = loss({x, y})[0];
    got.backward();
    const int traced = calls;
    const Tensor z = x.detach().requires_grad_(), expected = Huber{&calls}({z, y})[0];
    calls = traced;
    expected.backward();
    CHECK(equal(got, expected));
    CHECK(equal(x.grad(), z.grad()));
  }
  CHECK(calls == 2);
  CHECK(loss.explain() ==
        "f32[N,3] cpu 01, f32[N,3] cpu 01\n"
        "  together: sub, abs, square, mul, sub, lt, where, mean\n");
}

TEST_CASE("compile: on a GPU a group is one kernel, or explain() says why it is not" *
          test::cuda_case()) {
  int calls = 0;
  const jit::CompiledFunction loss = jit::compile(Huber{&calls});
  const Tensor x = randn({40, 3}).to(Device(DeviceType::kCUDA)).requires_grad_(),
               y = x.detach() * 0.5;
  const Tensor got = loss({x, y})[0];
  got.backward();
  const Tensor z = x.detach().requires_grad_(), expected = Huber{&calls}({z, y})[0];
  expected.backward();
  CHECK(equal(got, expected));
  CHECK(equal(x.grad(), z.grad()));
  const std::string text = loss.explain();
  // A kernel that NVRTC, or the driver, refuses is a fault; that NVRTC is absent is none.
  bool right = false;
  for (const char* const way : {"one kernel for ", "one by one: NVRTC cannot be loaded",
                                "one by one: NVRTC: this build was configured without"})
    right = right || count(text, concat("where, mean (", way)) == 1;
  CHECK_MESSAGE(right, text);
}

TEST_CASE("compile: another dtype, shape or order in memory is traced anew") {
  int calls = 0;
  const jit::CompiledFunction loss = jit::compile(Huber{&calls});
  const auto call = [&](const Tensor& x) { loss({x, x * 0.5}); };
  call(randn({4, 3}));
  CHECK(calls == 2);
  call(randn({4, 3}, {.dtype = kF64}));
  CHECK(calls == 4);
  call(randn({4, 5}));
  CHECK(calls == 6);
  call(randn({3, 4}).t());
  CHECK(calls == 8);
  call(randn({9, 3}));
  CHECK(calls == 8);
  CHECK(count(loss.explain(), "together") == 4);
}

TEST_CASE("compile: a program for one batch is traced for each") {
  int calls = 0;
  const jit::CompiledFunction f = jit::compile([&](const Tensors& t) {
    ++calls;
    return Tensors{t[0].dim(0) > 3 ? t[0].exp() : t[0].neg()};
  });
  const Tensor small = randn({3}), large = randn({7});
  CHECK(equal(f({large})[0], large.exp()));
  CHECK(equal(f({small})[0], small.neg()));
  const int traced = calls;
  CHECK(equal(f({large})[0], large.exp()));
  CHECK(equal(f({small})[0], small.neg()));
  CHECK(calls == traced);
}

TEST_CASE("compile: branches that depend on the batch are those of the call") {
  const std::function<Tensors(const Tensors&)> programs[] = {
      [](const Tensors& t) {
        return Tensors{narrow(t[0], 0, 0, std::min<int64_t>(t[0].dim(0), 5)).sum()};
      },
      [](const Tensors& t) { return Tensors{t[0].dim(0) > 100 ? t[0].exp() : t[0].neg()}; },
      [](const Tensors& t) { return Tensors{squeeze(t[0]) * 2}; },
      [](const Tensors& t) { return Tensors{t[0].dim(0) == 1 ? t[0].exp() : t[0].neg()}; },
  };
  for (const auto& f : programs) {
    for (const std::vector<int64_t>& batches : {std::vector<int64_t>{1000, 1, 1000}, {7, 1, 7}}) {
      const jit::CompiledFunction compiled = jit::compile(f);
      for (const int64_t batch : batches) {
        const Tensor x = randn({batch, 5}), got = compiled({x})[0], expected = f({x})[0];
        CHECK(got.shape() == expected.shape());
        CHECK(equal(got, expected));
      }
    }
  }
}

TEST_CASE("compile: an input that is no batch may have any number of rows") {
  const auto f = [](const Tensors& t) { return Tensors{t[0] * t[1].mean()}; };
  for (const int64_t rows : {1, 2, 3, 4, 5, 7}) {
    const jit::CompiledFunction compiled = jit::compile(f);
    for (const int64_t batch : {7, 2, 3, 1, 9}) {
      const Tensor x = randn({batch, 3}), w = randn({rows});
      CHECK(equal(compiled({x, w})[0], f({x, w})[0]));
    }
  }
}

TEST_CASE("compile: memory with gaps is another kind") {
  const auto f = [](const Tensors& t) { return Tensors{view(contiguous(t[0]), {-1, 3}) * 2}; };
  const jit::CompiledFunction compiled = jit::compile(f);
  const Tensor wide = randn({4, 6, 2}), rows = randn({1, 6});
  for (const Tensor& x : {randn({4, 6}), randn({4, 12}).slice(1, 0, 6), randn({4, 6}),
                          select(wide, 2, 0), expand(rows, {4, 6}), randn({4, 9}).slice(1, 0, 6)}) {
    CHECK(equal(compiled({x})[0], f({x})[0]));
  }
}

TEST_CASE("compile: a module has graphs for training and for evaluation") {
  nn::BatchNorm1d bn(3), twin(3);
  const jit::CompiledFunction f =
      jit::compile([&](const Tensors& t) { return Tensors{bn(t[0]) * 2}; }, &bn);
  for (const bool training : {false, true, false, true}) {
    bn.train(training);
    twin.train(training);
    const Tensor x = randn({16, 3}) + 5;
    CHECK(equal(f({x})[0], twin(x) * 2));
    CHECK(equal(bn.running_mean, twin.running_mean));
  }
  CHECK(count(f.explain(), "alone: batch_norm") == 2);
  CHECK(count(f.explain(), ", training\n") == 1);
}

TEST_CASE("compile: what cannot be traced is called itself, and explained") {
  const jit::CompiledFunction f =
      jit::compile([](const Tensors& t) { return Tensors{t[0] * t[0].max().item<float>()}; });
  const Tensor x = ones({3});
  CHECK(equal(f({x})[0], x));
  CHECK(f.explain().find("f32[3] cpu 0: trace: ") == 0);

  const jit::CompiledFunction random =
      jit::compile([](const Tensors& t) { return Tensors{dropout(t[0], {.p = 0.5})}; });
  CHECK(!equal(random({ones({100})})[0], random({ones({100})})[0]));

  const jit::CompiledFunction own = jit::compile([](const Tensors& t) {
    const Autocast half(kCPU, kBF16);
    return Tensors{t[0] * 2};
  });
  CHECK(own({x})[0].defined());
  CHECK(own.explain().find("Autocast is on") != std::string::npos);
  const Autocast on(kCPU, kBF16);
  const jit::CompiledFunction cast =
      jit::compile([](const Tensors& t) { return Tensors{t[0] * 2}; });
  CHECK(cast({x})[0].defined());
  CHECK(cast.explain() == "under Autocast: its ops would be cast, which graphs do not hold\n");
}

TEST_CASE("compile: errors of the function and of its inputs are the caller's") {
  const jit::CompiledFunction f =
      jit::compile([](const Tensors& t) { return Tensors{t[0] + t[1]}; });
  CHECK_THROWS_AS(f({randn({3}), randn({4})}), ShapeError);
  CHECK_THROWS_AS(f({randn({3}), Tensor()}), ValueError);
  CHECK(f({randn({3}), randn({3})})[0].defined());
}

TEST_CASE("compile: a module's parameters are followed, and named") {
  nn::Linear layer(3, 4);
  const jit::CompiledFunction f =
      jit::compile([&](const Tensors& t) { return Tensors{silu(layer(t[0])) * 2}; }, &layer);
  const Tensor x = randn({5, 3});
  CHECK(equal(f({x})[0], silu(layer(x)) * 2));
  {
    const NoGrad off;
    layer.named_parameters()[0].second.fill_(0.25);
  }
  CHECK(equal(f({x})[0], silu(layer(x)) * 2));
  f({x})[0].sum().backward();
  CHECK(layer.named_parameters()[0].second.grad().defined());
}

TEST_CASE("compile: a module in training moves its statistics as without") {
  manual_seed(3);
  nn::BatchNorm2d norm(3), twin(3);
  const auto forward = [](nn::BatchNorm2d& of) {
    return [&of](const Tensors& t) { return Tensors{relu(of(t[0])) * 2}; };
  };
  const jit::CompiledFunction f = jit::compile(forward(norm), &norm);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({4, 3, 5, 5});
    CHECK(equal(f({x})[0], forward(twin)({x})[0]));
  }
  for (size_t b = 0; b < twin.named_buffers().size(); ++b)
    CHECK(equal(norm.named_buffers()[b].second, twin.named_buffers()[b].second));
  CHECK(count(f.explain(), "together: relu, mul") == 1);
}

TEST_CASE("compile: kinds have a limit") {
  const jit::CompiledFunction f = jit::compile([](const Tensors& t) { return Tensors{t[0] * 2}; });
  for (int64_t size = 1; size <= 70; ++size) {
    const Tensor x = randn({2, size});
    CHECK(equal(f({x})[0], x * 2));
  }
  CHECK(count(f.explain(), "\n") == 2 * 64 + 1);
}

TEST_CASE("compile: several threads") {
  const jit::CompiledFunction f =
      jit::compile([](const Tensors& t) { return Tensors{(t[0] * 2).exp()}; });
  std::vector<int> right(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      const Tensor x = full({1000 + static_cast<int64_t>(i), 2}, 0.5);
      for (int k = 0; k < 20; ++k) right[i] += equal(f({x})[0], (x * 2).exp());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int n : right) CHECK(n == 20);
}
