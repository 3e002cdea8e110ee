// What surrounds DistributedDataParallel in a training program: clipping by the global norm, the
// loss scale, averages of weights and metrics are those of one process with the whole batch.
#include <doctest/doctest.h>

#include <limits>

#include "lathe/core/format.h"
#include "lathe/data/sampler.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// Six steps with clipping, scaler and EMA. In step 3 one sample, which only the last rank has, is
/// infinite.
std::string train(const GroupOptions& options) {
  ProcessGroup group(options);
  Net net(8);
  set_weights(net);
  DistributedDataParallel parallel(group, net);
  optim::AdamW adam(net.parameters(), {.lr = 0.05});
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  optim::EMA ema(net, {.decay = 0.5});
  const auto [x, y] = part_of_batch(group.rank(), group.world_size());
  std::string out;
  for (int step = 0; step < 6; ++step) {
    adam.zero_grad();
    Tensor in = x.clone();
    if (step == 3 && options.rank == options.world_size - 1)
      in.select(0, in.dim(0) - 1).fill_(std::numeric_limits<double>::infinity());
    scaler.scale(mse_loss(parallel(in), y)).backward();
    scaler.unscale_(adam);
    const Tensor norm = optim::clip_grad_norm_(net.parameters(), 0.1);
    if (step != 3) out += values_of({norm});
    scaler.step(adam);
    ema.update({.found_inf = scaler.found_inf(adam)});
    scaler.update();
    out += concat(scaler.get_scale(), " ");
  }
  out += values_of(net.parameters());
  const optim::EMA::Applied averaged(ema);
  return out + values_of(net.parameters());
}

}  // namespace

TEST_CASE("data parallel: clipping, loss scale and EMA are those of one process") {
  const std::string alone = Ranks(1, 60, train).result(0);
  for (const int n : {2, 4}) {
    const std::vector<std::string> results = Ranks(n, 60, train).results();
    for (const std::string& result : results) CHECK(result == results[0]);
    INFO(results[0]);
    CHECK(farthest(numbers_of(results[0]), numbers_of(alone)) <=
          1e-10);  // Adam divides by small numbers
  }
  CHECK(numbers_of(alone).size() == 5 + 6 + 2 * (6 * 8 + 8 + 8 * 3 + 3));
}

TEST_CASE("data parallel: metrics are sums over ranks, every sample counted once") {
  const auto evaluate = [](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(8);
    set_weights(net);
    net.eval();
    const auto [x, y] = part_of_batch(0, 1);
    const data::DistributedSampler mine(15, group.rank(), group.world_size(),
                                        {.shuffle = false, .pad = false});
    const Tensor sums =
        zeros({2}, {.dtype = kF64, .device = device()});  // of the losses, and how many
    for (const int64_t i : mine.order(0, 0)) {
      const NoGrad off;
      sums.select(0, 0).add_(square(net(x.slice(0, i, i + 1)) - y.slice(0, i, i + 1)).mean());
      sums.select(0, 1).add_(1);
    }
    group.all_reduce_(sums).wait();
    return values_of({sums.select(0, 0) / sums.select(0, 1), sums});
  };
  const std::vector<double> alone = numbers_of(Ranks(1, 60, evaluate).result(0));
  CHECK(alone.at(2) == 15);
  for (const int n : {2, 4}) {
    const std::vector<std::string> results = Ranks(n, 60, evaluate).results();
    for (const std::string& result : results) CHECK(farthest(numbers_of(result), alone) <= 1e-12);
  }
}
