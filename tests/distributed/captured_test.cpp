// Collectives in captured graphs, over the emulated NCCL: what a launch computes has the bits of the
// step that is queued, and a rank that fails ends the others' launches.
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/cuda_graph.h"
#include "lathe/core/format.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/distributed/zero_redundancy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/emulation/nccl_emulation.h"
#include "parts.h"
#include "patience.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::Ranks;

namespace {

[[maybe_unused]] const int g_four_emulated_gpus = setenv("LATHE_EMULATED_DEVICES", "4", 0);

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

Device gpu(int64_t number) { return Device(DeviceType::kCUDA, static_cast<int8_t>(number)); }

void check_all(int n, const Ranks::Body& body, const std::string& expected) {
  Ranks ranks(n, 60, body);
  for (int rank = 0; rank < n; ++rank) {
    const std::string result = ranks.result(rank);
    INFO("rank ", rank, ": ", result);
    CHECK(result.find(expected) != std::string::npos);
  }
}

/// What `f` throws as E.
template <class E>
std::string told_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    return error.message();
  }
  return "no error";
}

struct Net : nn::Module {
  Tensor forward(const Tensor& x) override { return b(norm(a(x))); }
  nn::Linear a{*this, "a", 6, 8};
  nn::BatchNorm1d norm{*this, "norm", 8};
  nn::Linear b{*this, "b", 8, 3};
};

struct Kind {
  const char* name;
  std::optional<DType> half;
  bool copies, sharded;
};
const Kind kKinds[] = {{"f32", {}, false, false},
                       {"f16", kF16, false, false},
                       {"f16 with half copies", kF16, true, false},
                       {"divided state", {}, false, true},
                       {"bf16, divided state and half copies", kBF16, true, true}};

struct Training {
  Training(ProcessGroup& group, const Kind& chosen, Device device) : kind(chosen) {
    test::set_weights(net);
    net.to(device);
    optimizer.emplace(net.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    optimizer->set_capturable();
    parallel.emplace(group, net, DataParallelOptions{.first_bucket_bytes = 64, .bucket_bytes = 64});
    if (kind.copies) optimizer->set_half_copies();
    if (kind.sharded) zero.emplace(group, *optimizer);
    x = zeros({4, 6}, {.device = device});
    y = ones({4, 3}, {.device = device});
  }

  void step() {
    std::optional<Autocast> scope;
    if (kind.half) scope.emplace(x.device(), *kind.half);
    const Tensor out = (*parallel)(x);
    scope.reset();
    loss = mse_loss(out.to(kF32), y);
    scaler.scale(loss).backward();
    scaler.step(*optimizer, {.max_grad_norm = 0.5, .fused = true});
    scaler.update();
    optimizer->zero_grad();
  }

  std::string state() {
    Tensors all = net.parameters();
    for (const auto& [name, buffer] : net.named_buffers()) all.push_back(buffer);
    all.push_back(loss);
    return test::values_of(all) + concat(scaler.get_scale());
  }

  const Kind& kind;
  Net net;
  std::optional<optim::SGD> optimizer;
  std::optional<DistributedDataParallel> parallel;
  std::optional<ZeroRedundancyOptimizer> zero;
  optim::GradScaler scaler{{.init_scale = 256, .growth_interval = 3}};
  Tensor x, y, loss;
};

/// Two eager steps, then launches, beside a twin whose steps are queued. In step 5 a number of the
/// last rank is infinite.
std::string compare(const GroupOptions& options) {
  const Device device = gpu(options.rank);
  ProcessGroup group(options);
  for (const Kind& kind : kKinds) {
    Training queued(group, kind, device), captured(group, kind, device);
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

TEST_CASE("captured steps on several ranks have the bits of steps that are queued") {
  for (const int n : test::worlds({2, 3}, true)) check_all(n, compare, "the same");
}

TEST_CASE("captured collectives: each launch makes them, in their order with others") {
  check_all(
      2,
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

TEST_CASE("captured collectives: a rank that fails ends the launches of all") {
  test::with_patience([&](double factor) {
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
      wrong += test::unless_contained(result,
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
      Training training(*group, kKinds[0], device);
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

TEST_CASE("captured collectives: a group that is gone, and one without NCCL") {
  check_all(
      2,
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
      "the process group is gone whose collectives it makes");
  check_all(
      2,
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
        require(test::values_of(params) == "0.5 0.5 0.5 0.5 0.5 ", "other values");
        sgd.step();
        require(test::values_of(params) == "0 0 0 0 0 ", "other values in the step after it");
        const StateDict state = sgd.state_dict();
        for (const char* name : {"state.0.step", "state.1.step"})
          require(state.at(name).item<double>() == 2, "another number of steps");
        return told;
      },
      "a step whose state is divided among 2 ranks cannot be recorded into a graph on cuda:");
}

TEST_CASE("captured steps: what cannot be recorded is refused, and the ranks go on") {
  check_all(
      2,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        Training training(group, kKinds[0], device);
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

TEST_CASE("captured steps: NCCL is not asked to register memory of expandable segments") {
  check_all(
      2,
      [](const GroupOptions& options) -> std::string {
        setenv("LATHE_EXPANDABLE_SEGMENTS", "1", 1);
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        Training training(group, kKinds[0], device);
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
