// ZeroRedundancyOptimizer: the parameters, the state and the norms of an optimiser with whole state
// on every rank, bit by bit; and how much of the state a rank keeps.
#include "lathe/distributed/zero_redundancy.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/fault.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/npz.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/scheduler.h"
#include "lathe/optim/sgd.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const Net& net)>;

const std::vector<std::pair<const char*, Make>> kOptimizers = {
    {"momentum",
     [](const Net& net) {
       return std::make_unique<optim::SGD>(
           std::vector<optim::SGDGroup>{{.params = {net.a.weight, net.a.bias}},
                                        {.params = {net.b.weight, net.b.bias}, .lr = 0.2}},
           optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
     }},
    {"AdamW",
     [](const Net& net) {
       return std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.05});
     }},
    {"Adafactor",
     [](const Net& net) {
       return std::make_unique<optim::Adafactor>(net.parameters(),
                                                 optim::AdafactorOptions{.lr = 0.05});
     }},
    {"LAMB", [](const Net& net) {
       return std::make_unique<optim::LAMB>(net.parameters(), optim::LAMBOptions{.lr = 0.05});
     }}};

std::string values_of(const StateDict& state) {
  std::string out;
  for (const auto& [name, tensor] : state) out += name + " " + test::values_of({tensor}) + "\n";
  return out;
}

struct Training {
  Training(ProcessGroup& group, const Make& make, bool sharded) : optimizer(make(net)) {
    set_weights(net);
    parallel.emplace(group, net);
    if (sharded) zero.emplace(group, *optimizer);
    ema.emplace(net, optim::EMAOptions{.decay = 0.5});
  }

  /// One step with scaler, clipping, a schedule and EMA. → the norm
  Tensor step(const Tensor& x, const Tensor& y, bool fused) {
    optimizer->zero_grad();
    scaler.scale(mse_loss((*parallel)(x), y)).backward();
    const Tensor norm = scaler.step(*optimizer, {.max_grad_norm = 0.5, .fused = fused});
    ema->update({.found_inf = scaler.found_inf(*optimizer)});
    scaler.update();
    optimizer->set_lr(0, optimizer->lr() * 0.9);
    return norm;
  }

  Net net{8};
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<DistributedDataParallel> parallel;
  std::optional<ZeroRedundancyOptimizer> zero;
  optim::GradScaler scaler{{.init_scale = 1024, .growth_interval = 2}};
  std::optional<optim::EMA> ema;
};

/// Six steps with whole and with divided state; in step 3 a sample of the last rank is infinite.
std::string compare(const GroupOptions& options) {
  ProcessGroup group(options);
  const auto [x, y] = part_of_batch(group.rank(), group.world_size());
  for (const auto& [name, make] : kOptimizers) {
    Training whole(group, make, false), divided(group, make, true);
    for (int step = 0; step < 6; ++step) {
      Tensor in = x.clone();
      if (step == 3 && options.rank == options.world_size - 1)
        in.select(0, 0).fill_(std::numeric_limits<double>::infinity());
      const Tensor expected = whole.step(in, y, step % 2 == 0);
      const Tensor norm = divided.step(in, y, step % 2 == 0);
      const std::string where = concat(" of ", name, " in step ", step);
      if (test::values_of({norm}) != test::values_of({expected})) return "norm" + where;
      if (test::values_of(divided.net.parameters()) != test::values_of(whole.net.parameters()))
        return "parameters" + where;
      if (values_of(divided.optimizer->state_dict()) != values_of(whole.optimizer->state_dict()))
        return "state" + where;
    }
    if (values_of(divided.ema->state_dict()) != values_of(whole.ema->state_dict())) return "EMA";
  }
  return "the same";
}

/// `steps` of AdamW with divided state, continued from what `begin` names and saved as `end`.
/// → the weights
std::string train(ProcessGroup& group, int steps, const std::string& begin,
                  const std::string& end) {
  Training training(group, kOptimizers[1].second, true);
  if (!begin.empty()) {
    training.net.load_state_dict(npz::read(begin + ".model"));
    training.optimizer->load_state_dict(npz::read(begin + ".optimizer"));
  }
  const auto [x, y] = part_of_batch(0, 1);  // the same on all ranks, and so is its average
  for (int step = 0; step < steps; ++step) training.step(x, y, false);
  const StateDict state = training.optimizer->state_dict();
  if (!end.empty() && group.rank() == 0) {
    npz::write(end + ".model", training.net.state_dict());
    npz::write(end + ".optimizer", state);
  }
  return test::values_of(training.net.parameters());
}

}  // namespace

TEST_CASE("zero redundancy: bits of parameters, norms and state are those of whole state") {
  std::vector<std::unique_ptr<Ranks>> runs;  // at the same time: ranks mostly wait for each other
  for (const int n : worlds({1, 2, 4})) runs.push_back(std::make_unique<Ranks>(n, 60, compare));
  for (const auto& run : runs) {
    for (const std::string& result : run->results()) CHECK(result == "the same");
  }
}

TEST_CASE("zero redundancy: a rank keeps its share of the state, and no more") {
  Ranks ranks(4, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Tensors params;
    for (const int64_t size : {100, 700, 300, 300, 500, 200, 100, 600}) {
      params.push_back(ones({size}).requires_grad_());
    }
    optim::AdamW adam(params);
    const auto step = [&] {
      adam.zero_grad();
      Tensor loss = zeros({});
      for (const Tensor& p : params) loss = loss + p.sum();
      loss.backward();
      adam.step();
    };
    step();  // whole state, of which the other ranks' is released
    std::string out = concat(adam.state_bytes(), " ");
    const ZeroRedundancyOptimizer zero(group, adam);
    out += concat(adam.state_bytes(), " ");
    step();
    out += concat(adam.state_bytes(), ":");
    for (size_t i = 0; i < params.size(); ++i) out += concat(" ", zero.owner(i));
    return out;
  });
  // By size: 700 600 500 300 300 200 100 100 for ranks 0 1 2 3 3 2 1 3.
  for (const std::string& result : ranks.results())
    CHECK(result == concat(8 * 2800, " ", 8 * 700, " ", 8 * 700, ": 1 0 3 3 2 2 3 1"));
}

TEST_CASE(
    "zero redundancy: a frozen parameter whose gradient is still there changes on all ranks") {
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    const Tensors params = {ones({3}).requires_grad_(), ones({2}).requires_grad_()};
    optim::SGD sgd(params, {.lr = 0.5});
    const ZeroRedundancyOptimizer zero(group, sgd);
    for (const Tensor& p : params) p.set_grad(ones_like(p));
    for (const Tensor& p : params) p.requires_grad_(false);
    sgd.step();
    return test::values_of(params);
  });
  for (const std::string& result : ranks.results()) CHECK(result == "0.5 0.5 0.5 0.5 0.5 ");
}

TEST_CASE("zero redundancy: a state saved by some ranks is continued by others") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / concat("lathe-zero-", getpid(), ".")).string();
  const auto run = [](int n, int steps, const std::string& begin, const std::string& end) {
    return Ranks(n, 60,
                 [&](const GroupOptions& options) {
                   ProcessGroup group(options);
                   return train(group, steps, begin, end);
                 })
        .results();
  };
  const std::string expected = run(1, 5, "", "")[0];
  for (const auto& [before, after] : {std::pair{4, 2}, {2, 1}, {1, 4}}) {
    const std::string file = folder + std::to_string(before);
    run(before, 3, "", file);
    for (const std::string& result : run(after, 2, file, "")) CHECK(result == expected);
    std::filesystem::remove(file + ".model");
    std::filesystem::remove(file + ".optimizer");
  }
}

TEST_CASE("zero redundancy: optimisers that differ are refused") {
  Ranks differ(2, 60, [](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    std::string told;
    const auto divide = [&](int64_t width, double momentum) {
      Net net(width);
      optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = momentum});
      try {
        const ZeroRedundancyOptimizer zero(group, sgd);
      } catch (const DistributedError& error) {
        told += error.message();
      }
      group.barrier().wait();
    };
    divide(options.rank == 1 ? 9 : 8, 0.5);
    divide(8, options.rank == 1 ? 0.25 : 0.5);
    return told;
  });
  for (const std::string& result : differ.results()) {
    INFO(result);
    CHECK(result.find("the optimisers differ: rank 1 (") != std::string::npos);
    CHECK(result.find("has parameter 0 f64[9,6] where rank 0 has parameter 0 f64[8,6]") !=
          std::string::npos);
    CHECK(result.find("has group.0.momentum 0.25 where rank 0 has group.0.momentum 0.5") !=
          std::string::npos);
  }
}

TEST_CASE("zero redundancy: a step that fails in one rank is told in the others") {
  Ranks fails(2, 60, [](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    Net net(8);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    const ZeroRedundancyOptimizer zero(group, sgd);
    for (const Tensor& p : net.parameters()) p.set_grad(ones_like(p));
    sgd.step();
    if (options.rank == zero.owner(2)) {  // its buffer does not fit any more
      net.b.weight.set_data(zeros({2, 2}, {.dtype = kF64, .device = device()}));
      net.b.weight.set_grad(ones({2, 2}, {.dtype = kF64, .device = device()}));
    }
    try {
      for (int step = 0; step < 1000; ++step) sgd.step();
    } catch (const Error& error) {
      return error.message();
    }
    return concat("no error; rank ", zero.owner(2));
  });
  INFO(fails.result(0));
  CHECK(fails.result(0).find("rank 1 (") != std::string::npos);
  CHECK(fails.result(0).find("failed: its optimiser's step failed: ") != std::string::npos);
}

TEST_CASE("zero redundancy: a state_dict() that fails in one rank is told in the others") {
  Ranks no_memory(2, 60, [](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    Net net(8);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    const ZeroRedundancyOptimizer zero(group, sgd);
    if (options.rank == 1) {
      const ArmedFault fault(host_allocator().fault(), 1);
      try {
        sgd.state_dict();
      } catch (const OutOfMemoryError&) {  // then rank 1, too, is told what the others are
      }
    }
    try {
      sgd.state_dict();
    } catch (const DistributedError& error) {
      return error.message();
    }
    return "no error";
  });
  for (const std::string& result : no_memory.results()) {
    INFO(result);
    CHECK(result.find("rank 1 (") != std::string::npos);
    CHECK(result.find("failed: its optimiser's state_dict() failed: ") != std::string::npos);
  }
}

TEST_CASE("zero redundancy: an optimiser is divided once, and does not step afterwards") {
  ProcessGroup alone({});
  Net net(8);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  for (const Tensor& p : net.parameters()) p.set_grad(ones_like(p));
  {
    const ZeroRedundancyOptimizer zero(alone, sgd);
    CHECK_THROWS_WITH_AS(ZeroRedundancyOptimizer(alone, sgd),
                         doctest::Contains("is shared among processes already"), StateError);
    sgd.step();
  }
  const std::string before = test::values_of(net.parameters());
  CHECK_THROWS_WITH_AS(sgd.step(), doctest::Contains("no longer exists"), StateError);
  CHECK(test::values_of(net.parameters()) == before);
}
