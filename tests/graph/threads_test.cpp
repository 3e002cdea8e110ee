// One graph that several threads run at the same time.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/where.h"

using namespace lathe;

namespace {

/// serve(i) on `count` threads at once; they begin together, so that first calls meet.
template <class Serve>
void on_threads(int count, const Serve& serve) {
  std::atomic<int> waiting = count;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting != 0) std::this_thread::yield();
      serve(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("graph: many requests from several threads, in batches of several sizes") {
  manual_seed(4);
  const auto model = nn::make_model("resnet8", {.classes = 5, .image_size = 16});
  model->eval();
  for (const bool alone : {false, true}) {
    jit::Graph graph = jit::trace(*model, randn({2, 3, 16, 16}));
    jit::optimize_for_inference(graph);
    Tensors images, expected;
    jit::Graph other = graph;  // what has run before must not matter
    for (int64_t i = 0; i < 4; ++i) {
      images.push_back(randn({1 + i % 3, 3, 16, 16}));
      const NoGrad off;
      std::optional<ComputeAlone> lone;
      if (alone) lone.emplace();
      expected.push_back(other(images.back()));
    }
    std::atomic<int> wrong = 0;
    on_threads(4, [&](int thread) {
      const NoGrad off;
      std::optional<ComputeAlone> lone;
      if (alone) lone.emplace();
      for (int i = 0; i < 6; ++i) {
        const auto k = static_cast<size_t>((thread + i) % 4);
        // Convolutions that other threads leave no helpers may be split, and rounded, otherwise.
        wrong += !allclose(graph(images[k]), expected[k], {.rtol = 1e-4, .atol = 1e-5});
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("graph: fused groups and their gradients on several threads") {
  const jit::CompiledFunction loss = jit::compile([](const Tensors& t) {
    const Tensor d = silu(t[0]) - t[1], size = d.abs();
    return Tensors{where(size < 1, d.square() * 0.5, size - 0.5).mean()};
  });
  manual_seed(5);
  const Tensor x = randn({33000}), y = randn({33000});
  const auto gradient = [&] {
    const Tensor leaf = x.detach().requires_grad_();
    loss({leaf, y})[0].backward();
    return leaf.grad();
  };
  std::vector<Tensor> found(12);
  on_threads(4, [&](int thread) {
    for (size_t i = 0; i < 3; ++i) found[static_cast<size_t>(thread) * 3 + i] = gradient();
  });
  const Tensor expected = gradient();
  for (const Tensor& g : found) CHECK(equal(g, expected));
}

TEST_CASE("compile: what several threads call first is traced once") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> in_traces = 0;
    const jit::CompiledFunction f = jit::compile([&](const Tensors& t) {
      in_traces += !grad_enabled();
      return Tensors{t[0] * 2 + 1};
    });
    const Tensor x = ones({4, 3});
    on_threads(4, [&](int) { f({x}); });
    CHECK(in_traces.load() == 2);
  }
}
