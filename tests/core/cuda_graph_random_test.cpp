// cuda::Graph: random numbers. A launch draws what the step would draw if it ran instead.
#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "../cuda_case.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/random/random_state.h"
#include "lathe/core/stream.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// A step with a gradient that draws from the default generator of the GPU and, unless it is null,
/// from another one. It leaves everything that it drew in out.
struct Step {
  Generator* own = nullptr;
  Tensor x = full({6, 5}, 1.0, {.device = kGpu}).requires_grad_();
  Tensor out = zeros({4, 30}, {.device = kGpu});

  void operator()() const {
    const Tensor noise = rand({30}, {.device = kGpu});
    copy_values(out.select(0, 0), noise);
    copy_values(out.select(0, 1), randn({5, 6}, {.device = kGpu}, own).t().reshape({30}));
    const Tensor y = dropout(x, {.p = 0.4});
    x.set_grad({});
    sum(y).backward();
    copy_values(out.select(0, 2), y.detach().reshape({30}));
    copy_values(out.select(0, 3), x.grad().reshape({30}));
  }
  std::vector<float> values() const { return out.to(kCPU).to_vector<float>(); }
};

/// What a step leaves each time; 'e' in `plan` runs it, '1' and '2' launch one of two graphs of it,
/// '!' seeds again, 's' saves the state of all generators, 'r' restores that.
std::vector<std::vector<float>> run(std::string_view plan) {
  manual_seed(5);
  Generator own(17);
  const Step step{&own};
  cuda::Graph graphs[2] = {cuda::Graph(kGpu), cuda::Graph(kGpu)};
  for (cuda::Graph& graph : graphs) graph.capture(step);
  StateDict saved;
  std::vector<std::vector<float>> out;
  for (const char what : plan) {
    if (what == '!') manual_seed(9);
    if (what == 's') saved = random_state();
    if (what == 'r') set_random_state(saved);
    if (what == 'e') step();
    if (what == '1' || what == '2') graphs[what - '1'].launch();
    out.push_back(step.values());
  }
  return out;
}

}  // namespace

TEST_CASE("cuda graph: launches and steps that run draw the same numbers, in any mix" *
          test::cuda_case()) {
  const auto expected = run("eeseereee!eee");
  CHECK(expected[0] != expected[1]);
  for (const std::string_view plan :
       {"11s11r111!111", "12s21r112!221", "e1s2er1e2!21e", "1es1er2ee!e1e"}) {
    CAPTURE(plan);
    CHECK(run(plan) == expected);
  }
}

TEST_CASE("cuda graph: a launch on another stream leaves the numbers of the one before alone" *
          test::cuda_case()) {
  const auto sums = [](bool launches) {
    manual_seed(3);
    const Tensor sum = zeros({8}, {.device = kGpu});
    const auto step = [&] { sum.add_(rand({8}, {.device = kGpu})); };
    cuda::Graph graph(kGpu);
    graph.capture(step);
    const OwnedStream streams[] = {OwnedStream(kGpu), OwnedStream(kGpu)};
    cuda::synchronize(kGpu);  // these streams wait for no other
    for (int i = 0; i < 6; ++i) {
      const StreamScope on(streams[i % 2]);
      if (launches) {
        graph.launch();
      } else {
        step();
        synchronize(streams[i % 2]);
      }
    }
    cuda::synchronize(kGpu);
    return sum.to(kCPU).to_vector<float>();
  };
  CHECK(sums(true) == sums(false));
}

TEST_CASE("cuda graph: checkpoint() draws its numbers twice in a launch too" * test::cuda_case()) {
  const auto gradients = [](bool checkpointed, bool launches) {
    manual_seed(11);
    const Tensor x = full({40}, 1.0, {.device = kGpu}).requires_grad_();
    const Tensor sums = zeros({40}, {.device = kGpu});
    const auto f = [](const Tensors& in) {
      return Tensors{dropout(mul(in[0], in[0]), {.p = 0.5})};
    };
    const auto step = [&] {
      x.set_grad({});
      sum(dropout(checkpointed ? autograd::checkpoint(f, {x})[0] : f({x})[0], {.p = 0.2}))
          .backward();
      sums.add_(x.grad());
    };
    cuda::Graph graph(kGpu);
    if (launches) graph.capture(step);
    for (int i = 0; i < 3; ++i) launches ? graph.launch() : step();
    return sums.to(kCPU).to_vector<float>();
  };
  const auto expected = gradients(false, false);
  CHECK(gradients(true, false) == expected);
  CHECK(gradients(false, true) == expected);
  CHECK(gradients(true, true) == expected);
}

TEST_CASE("cuda graph: a capture moves no generator, whether it succeeds or not" *
          test::cuda_case()) {
  Generator own(1);
  own.reserve(7);
  manual_seed(2);
  const Tensor x = zeros({9}, {.device = kGpu});
  const Generator& usual = default_generator(kGpu);
  const Generator::State before = usual.state(), own_before = own.state();
  const auto draw = [&] {
    uniform_(x, 0, 1, &own);
    uniform_(x, 0, 1);
  };
  cuda::Graph graph(kGpu);
  CHECK_THROWS_AS(graph.capture([&] {
    draw();
    throw IndexError("a test's");
  }),
                  IndexError);
  CHECK(usual.state() == before);
  CHECK(own.state() == own_before);
  graph.capture(draw);
  CHECK(usual.state() == before);
  CHECK(own.state() == own_before);
  graph.launch();
  CHECK(usual.state() == Generator::State{2, before.offset + 3});
  CHECK(own.state() == Generator::State{1, 10});
}

TEST_CASE("cuda graph: a generator that recorded work seeds or sets back is an error" *
          test::cuda_case()) {
  Generator own(1);
  own.reserve(7);
  const Generator::State before = own.state();
  const Tensor x = zeros({9}, {.device = kGpu});
  const auto refuses = [&](auto&& change) {
    cuda::Graph graph(kGpu);
    CHECK_THROWS_AS(graph.capture([&] {
      uniform_(x, 0, 1, &own);
      change();
    }),
                    StateError);
    CHECK(graph.size() == 0);
    CHECK(own.state() == before);
  };
  refuses([&] { own.manual_seed(4); });
  refuses([&] { own.set_state({1, 6}); });
  refuses([&] {
    own.set_state({1, 6});
    uniform_(x, 0, 1, &own);
  });
}

TEST_CASE("cuda graph: gradients of what a launch drew can be taken after the graph is gone" *
          test::cuda_case()) {
  manual_seed(21);
  const Tensor x = full({50}, 1.0, {.device = kGpu}).requires_grad_();
  Tensor y;
  std::vector<float> kept;
  {
    cuda::Graph graph(kGpu);
    graph.capture([&] { y = dropout(x, {.p = 0.5}); });
    graph.launch();
    graph.launch();
    kept = y.detach().to(kCPU).to_vector<float>();
  }
  sum(y).backward();
  CHECK(x.grad().to(kCPU).to_vector<float>() == kept);
}
