// Mixed precision on several ranks: half copies of weights, divided state of the optimiser and both
// together change no bit, an overflow of one rank is one of all, and the result is near that of one
// process.
#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/core/format.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/distributed/zero_redundancy.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/sgd.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

constexpr int kSteps = 6, kOverflow = 3;

struct Training {
  Training(ProcessGroup& group, DType half, bool copies, bool sharded) : type(half) {
    net.to(kF32);
    set_weights(net);
    optimizer.emplace(net.parameters(), optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    parallel.emplace(group, net);
    if (copies) optimizer->set_half_copies();
    if (sharded) zero.emplace(group, *optimizer);
  }

  void step(const Tensor& x, const Tensor& y) {
    Tensor loss;
    {
      const Autocast scope(device(), type);
      loss = mse_loss((*parallel)(x).to(kF32), y);
    }
    scaler.scale(loss).backward();
    scaler.step(*optimizer, {.max_grad_norm = 0.5, .fused = true});
    scaler.update();
    optimizer->zero_grad();
  }

  std::string state() { return values_of(net.parameters()) + concat(scaler.get_scale(), " "); }

  const DType type;
  Net net{8};
  std::optional<optim::SGD> optimizer;
  std::optional<DistributedDataParallel> parallel;
  std::optional<ZeroRedundancyOptimizer> zero;
  optim::GradScaler scaler{{.init_scale = 256, .growth_interval = 2}};
};

/// The parameters and the loss scale, which all kinds of training must have after each step.
std::string train(const GroupOptions& options, DType half) {
  ProcessGroup group(options);
  const auto [wide_x, wide_y] = part_of_batch(group.rank(), group.world_size());
  const Tensor x = wide_x.to(kF32), y = wide_y.to(kF32);
  std::vector<std::unique_ptr<Training>> kinds;
  for (const bool copies : {false, true}) {
    for (const bool sharded : {false, true})
      kinds.push_back(std::make_unique<Training>(group, half, copies, sharded));
  }
  for (int step = 0; step < kSteps; ++step) {
    Tensor in = x.clone();
    if (step == kOverflow && options.rank == options.world_size - 1)
      in.select(0, 0).fill_(std::numeric_limits<double>::infinity());
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      kinds[kind]->step(in, y);
      if (kinds[kind]->state() != kinds[0]->state())
        return concat("kind ", kind, " differs in step ", step);
    }
    if (kinds[0]->scaler.read_progress().skipped != (step < kOverflow ? 0 : 1))
      return concat("skipped in step ", step);
  }
  return kinds[0]->state();
}

}  // namespace

TEST_CASE("data parallel: half copies and divided state change no bit of mixed precision") {
  for (const DType half : {kF16, kBF16}) {
    INFO(name_of(half));
    const auto run = [half](int n) {
      return Ranks(n, 60, [half](const GroupOptions& o) { return train(o, half); }).results();
    };
    const std::vector<double> alone = numbers_of(run(1)[0]);
    REQUIRE(alone.size() == 6 * 8 + 8 + 8 * 3 + 3 + 1);
    for (const int n : worlds({2, 4})) {
      const std::vector<std::string> results = run(n);
      for (const std::string& result : results) CHECK(result == results[0]);
      // Each rank rounds its gradients to half, and weights of up to 2 move by some tenths.
      CHECK(farthest(numbers_of(results[0]), alone) <= (half == kF16 ? 2e-3 : 1.6e-2));
    }
  }
}
