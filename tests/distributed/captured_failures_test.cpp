// Collectives in captured graphs where a rank fails or has no NCCL: over the emulated ones, which
// can be made to. The rest: captured_test.cpp.
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "captured_training.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/reduce.h"
#include "lathe/tests/emulation/nccl_emulation.h"
#include "patience.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

TEST_CASE("captured collectives: a rank that fails ends the launches of all") {
  with_patience([&](double factor) {
    Ranks ranks(2, 2 * factor, [](const GroupOptions& options) -> std::string {
      const Device device = gpu(options.rank);
      ProcessGroup group(options);
      const Tensor t = ones({2}, {.device = device});
      group.all_reduce_(t).wait();
      cuda::Graph graph(device);
      graph.capture([&] { group.all_reduce_(t).wait(); });
      if (options.rank == 1) emulation::nccl_probe().hang_fault.fail_at(3);
      return told_by<DistributedError>([&] {
        for (int i = 0; i < 1000; ++i) {
          graph.launch();
          t.sum().item<double>();
        }
      });
    });
    std::string wrong;
    for (const std::string& result : ranks.results())
      wrong += unless_contained(result,
                                "the launch of a graph (NCCL: a collective: is not "
                                "over in time)");
    return wrong;
  });
}

// NCCL keeps a communicator as long as a graph has its collectives. Whoever ends it must not wait
// for that: the thread that owns the graph, here in its backward pass, or one that it waits for.
TEST_CASE("captured collectives: a failure beside a living graph is told in time") {
  const auto run = [](const std::function<void()>& fails, const GroupOptions& options) {
    const Device device = gpu(options.rank);
    std::optional<ProcessGroup> group(options);
    std::string told;
    {
      CapturedTraining training(*group, kKinds[0], device);
      cuda::Graph graph(device);
      for (int step = 0; step < 2; ++step) training.step();
      graph.capture([&] { training.step(); });
      graph.launch();
      training.scaler.after_launch();
      told = told_by<Error>([&] {
        for (int step = 0; step < 1000; ++step) {
          const Tensor h = training.net.norm(training.net.a(training.x));
          h.register_hook([&](const Tensor&) {
            if (options.rank == 1 && step == 2) fails();
            return Tensor();
          });
          training.loss = mse_loss(training.net.b(h), training.y);
          training.loss.backward();
          training.optimizer->zero_grad();
          training.loss.item<double>();
        }
      });
      require(emulation::nccl_probe().aborted == 0, "the graph does not hold the communicator");
    }
    group.reset();
    require(emulation::nccl_probe().aborted == 1, "not aborted");
    return told;
  };
  const auto check_told = [&](const std::function<void()>& fails, const char* cause, int told) {
    Ranks ranks(2, 60, [&](const GroupOptions& options) { return run(fails, options); });
    for (int rank = 0; rank < told; ++rank) {
      const std::string result = ranks.result(rank);
      INFO("rank ", rank, ": ", result);
      CHECK(result.find(cause) != std::string::npos);
    }
  };
  check_told([] { LATHE_FAIL(StateError, "no more"); }, "no more", 2);
  check_told([] { raise(SIGKILL); }, "ended without a word", 1);
}

TEST_CASE("captured collectives: a step of a divided state, where a rank has no NCCL") {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        if (options.rank == 1)
          setenv("LATHE_EMULATED_LIBRARIES", "libcudnn.so.9 libcublasLt.so.13", 1);
        ProcessGroup group(options);
        const Tensors params = {ones({3}, {.device = device}).requires_grad_(),
                                ones({2}, {.device = device}).requires_grad_()};
        for (const Tensor& p : params) p.set_grad(ones_like(p));
        optim::SGD sgd(params, {.lr = 0.5});
        sgd.set_capturable();
        const ZeroRedundancyOptimizer zero(group, sgd);
        sgd.step();
        const auto versions = [&] { return std::pair(params[0].version(), params[1].version()); };
        const auto before = versions();
        cuda::Graph graph(device);
        const std::string told = told_by<StateError>([&] { graph.capture([&] { sgd.step(); }); });
        require(versions() == before, "a version has changed");
        require(values_of(params) == "0.5 0.5 0.5 0.5 0.5 ", "other values");
        sgd.step();
        require(values_of(params) == "0 0 0 0 0 ", "other values in the step after it");
        const StateDict state = sgd.state_dict();
        for (const char* name : {"state.0.step", "state.1.step"})
          require(state.at(name).item<double>() == 2, "another number of steps");
        return told;
      },
      "a step whose state is divided among 2 ranks cannot be recorded into a graph on cuda:");
}
