// replicate(), a step of training whose batch is divided among ranks, and buffers of rank 0.
#include "lathe/distributed/replicate.h"

#include <doctest/doctest.h>

#include <memory>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/files/hash.h"
#include "lathe/core/random/generator.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/random.h"
#include "lathe/optim/sgd.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// The gradients of one step, then a hash of the parameters after 10.
std::string train(const GroupOptions& options) {
  ProcessGroup group(options);
  manual_seed(static_cast<uint64_t>(10 + options.rank));  // other weights on each rank, until
  Net net(8);
  if (options.rank == 0) set_weights(net);
  replicate(group, net);
  const auto [x, y] = part_of_batch(group.rank(), group.world_size());
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::string gradients;
  for (int step = 0; step < 10; ++step) {
    sgd.zero_grad();
    mse_loss(net(x), y).backward();
    std::vector<Work> calls;
    Tensors grads;
    for (const Tensor& p : net.parameters()) {
      grads.push_back(p.grad());
      calls.push_back(group.all_reduce_(grads.back(), Reduce::kAverage));
    }
    for (Work& call : calls) call.wait();
    if (step == 0) gradients = values_of(grads);
    sgd.step();
  }
  return gradients + "|" + sha256_hex(values_of(net.parameters()));
}

}  // namespace

TEST_CASE("1, 2 and 4 ranks have the gradients of one process with the whole batch") {
  std::vector<double> expected;
  std::vector<std::unique_ptr<Ranks>> runs;  // at the same time: ranks mostly wait for each other
  for (const int n : {1, 2, 4, 2}) runs.push_back(std::make_unique<Ranks>(n, 60, train));
  CHECK(runs[1]->results() == runs[3]->results());
  for (const int n : {1, 2, 4}) {
    const std::vector<std::string> results = runs[static_cast<size_t>(n / 2)]->results();
    for (const std::string& result : results) CHECK(result == results[0]);
    const std::vector<double> gradients = numbers_of(results[0].substr(0, results[0].find('|')));
    CHECK(gradients.size() == 6 * 8 + 8 + 8 * 3 + 3);
    if (n == 1) expected = gradients;
    CHECK(farthest(gradients, expected) <= 1e-12);
  }
}

TEST_CASE("models that differ are named, and the group goes on") {
  Ranks ranks(3, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(options.rank == 2 ? 9 : 8);
    std::string text = "no error";
    try {
      replicate(group, net);
    } catch (const DistributedError& error) {
      text = error.message();
    }
    group.barrier().wait();
    return text;
  });
  for (const std::string& result : ranks.results()) {
    CHECK(result.find("replicate: the models differ: rank 2 (") == 0);
    CHECK(result.find(") has a.weight f64[9,6] where rank 0 has a.weight f64[8,6]") !=
          std::string::npos);
  }
}

TEST_CASE("data parallel: each training forward begins with the buffers of rank 0") {
  struct Normed : nn::Module {
    nn::Linear a{*this, "a", 6, 3};
    nn::BatchNorm1d norm{*this, "norm", 3};
    Normed() { to(device()); }
    Tensor forward(const Tensor& x) override { return norm(a(x)); }
  };
  for (const bool broadcast : {true, false}) {
    Ranks ranks(2, 60, [broadcast](const GroupOptions& options) {
      ProcessGroup group(options);
      Normed net;
      DistributedDataParallel parallel(group, net, {.broadcast_buffers = broadcast});
      const Tensor x =
          (full({4, 6}, static_cast<double>(options.rank + 1)) + randn({4, 6})).to(device());
      parallel(x);
      parallel.broadcast_buffers();
      std::string out;
      for (const auto& [name, buffer] : net.named_buffers()) out += values_of({buffer}) + ";";
      if (options.rank == 1) {  // which would wait for rank 0
        const auto accumulate = parallel.no_sync();
        parallel.broadcast_buffers();
      }
      if (options.rank == 1) {
        const NoGrad off;
        parallel.broadcast_buffers();
      }
      net.eval();
      if (options.rank == 1) parallel.broadcast_buffers();
      if (options.rank == 0) parallel(x);  // no rank waits for another one
      return out;
    });
    const std::vector<std::string> results = ranks.results();
    CHECK((results[0] == results[1]) == broadcast);
    CHECK(results[0].ends_with(";1 ;"));  // num_batches_tracked
  }
}
