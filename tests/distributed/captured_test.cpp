// Collectives in captured graphs, over NCCL or the emulated one: what a launch computes has the
// bits of the step that is queued. What fails: captured_failures_test.cpp; one rank: nccl_test.cpp.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../emulated_count.h"
#include "captured_training.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// Two eager steps, then launches, beside a twin whose steps are queued. In step 5 a number of the
/// last rank is infinite.
std::string compare(const GroupOptions& options) {
  const Device device = gpu(options.rank);
  ProcessGroup group(options);
  for (const CapturedKind& kind : kKinds) {
    CapturedTraining queued(group, kind, device), captured(group, kind, device);
    cuda::Graph graph(device);
    for (int step = 0; step < 8; ++step) {
      manual_seed(static_cast<uint64_t>(10 * step + options.rank));
      Tensor x = randn({4, 6});
      if (step == 5 && options.rank == options.world_size - 1)
        x.fill_(std::numeric_limits<double>::infinity());
      copy_values(queued.x, x);
      copy_values(captured.x, x);
      queued.optimizer->set_lr(0, 0.1 / (step + 1));
      captured.optimizer->set_lr(0, 0.1 / (step + 1));
      queued.step();
      if (step == 2) graph.capture([&] { captured.step(); });
      if (step < 2) {
        captured.step();
      } else {
        const uint64_t waits = cuda::counters().synchronizations;
        graph.launch();
        require(cuda::counters().synchronizations == waits, "the host waited");
        captured.scaler.after_launch();
      }
      require(queued.state() == captured.state(),
              concat(kind.name, ": other values after step ", step));
    }
    queued.step();  // steps of both kinds can follow each other
    captured.step();
    require(queued.state() == captured.state(), concat(kind.name, ": other values at the end"));
    require(queued.scaler.read_progress().skipped == 1, concat(kind.name, ": no step skipped"));
  }
  return "the same";
}

}  // namespace

TEST_CASE("captured steps on several ranks have the bits of steps that are queued" * gpus_case(2)) {
  // Three ranks may add in another order within a graph.
  for (const int n : worlds(kEmulated ? std::vector{2, 3} : std::vector{2}, true))
    check_all(n, 60, compare, "the same");
}

TEST_CASE("captured collectives: each launch makes them, in their order with others" *
          gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        const Tensor t = ones({2}, {.device = device}), all = zeros({2, 2}, {.device = device});
        cuda::Graph none(device), graph(device);
        const std::string told =
            told_by<StateError>([&] { none.capture([&] { group.all_reduce_(t).wait(); }); });
        require(told.find("its first call on a GPU connects the ranks") != told.npos, told);
        group.all_reduce_(t).wait();  // 2
        graph.capture([&] {
          Work sum = group.all_reduce_(t);
          all.fill_(1);  // beside it
          sum.wait();
          group.all_gather_(all, t).wait();
        });
        graph.launch();               // 4
        group.all_reduce_(t).wait();  // 8
        graph.launch();               // 16
        graph.launch();               // 32
        require(all.sum().item<double>() == 4 * 32, concat("all is ", all.sum().item<double>()));
        const Tensor column = ones({4, 3}, {.dtype = kI16, .device = device}).select(1, 1);
        cuda::Graph copies(device);
        copies.capture([&] { group.all_reduce_(column).wait(); });
        for (int i = 0; i < 2; ++i) copies.launch();
        require(column.sum().item<double>() == 16, "another sum of a column");
        group.barrier().wait();
        return "right";
      },
      "right");
}

TEST_CASE("captured collectives: a group that is gone" * gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        const Tensor t = ones({2}, {.device = device});
        cuda::Graph graph(device);
        {
          ProcessGroup group(options);
          group.all_reduce_(t).wait();
          graph.capture([&] { group.all_reduce_(t).wait(); });
          graph.launch();
        }
        return told_by<StateError>([&] { graph.launch(); });
      },
      "the process group of its collectives no longer exists");
}

TEST_CASE("captured steps: what cannot be recorded is refused, and the ranks go on" *
          gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        CapturedTraining training(group, kKinds[0], device);
        training.scaler.scale(training.y);  // a capture cannot begin the scale either
        {
          cuda::Graph first(device);
          const std::string told =
              told_by<StateError>([&] { first.capture([&] { training.step(); }); });
          require(told.find("learns the order of the gradients") != told.npos, told);
        }
        training.scaler.abandon_step();
        training.optimizer->zero_grad();
        training.step();
        {
          cuda::Graph part(device);
          const std::string told = told_by<StateError>([&] {
            part.capture([&] {
              training.net
                  .b(training.net.norm(
                      training.x.matmul(training.net.a.weight.transpose(0, 1).detach())))
                  .sum()
                  .backward();
            });
          });
          require(told.find("does not depend on all parameters") != told.npos, told);
        }
        training.optimizer->zero_grad();
        training.step();
        return "right";
      },
      "right");
}

TEST_CASE("captured steps: NCCL is not asked to register memory of expandable segments" *
          gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        setenv("LATHE_EXPANDABLE_SEGMENTS", "1", 1);
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        CapturedTraining training(group, kKinds[0], device);
        training.step();
        {
          cuda::Graph refused(device);
          const std::string told =
              told_by<StateError>([&] { refused.capture([&] { training.step(); }); });
          require(told.find("NCCL_GRAPH_REGISTER=0") != told.npos, told);
        }
        training.scaler.abandon_step();
        training.optimizer->zero_grad();
        training.step();
        setenv("NCCL_GRAPH_REGISTER", "0", 1);
        cuda::Graph graph(device);
        graph.capture([&] { training.step(); });
        graph.launch();
        return "right";
      },
      "right");
}
