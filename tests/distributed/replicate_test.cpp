// replicate(), and a step of training whose batch is divided among ranks.
#include "lathe/distributed/replicate.h"

#include <doctest/doctest.h>

#include <memory>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/generator.h"
#include "lathe/core/hash.h"
#include "lathe/ops/losses.h"
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
