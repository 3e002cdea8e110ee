// replicate(), and a step of training whose batch is divided among ranks.
#include "lathe/distributed/replicate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/generator.h"
#include "lathe/core/hash.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/sgd.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::Ranks;

namespace {

struct Net : nn::Module {
  explicit Net(int64_t width) : a(*this, "a", 6, width), b(*this, "b", width, 3) { to(kF64); }
  Tensor forward(const Tensor& x) override { return b(relu(a(x))); }
  nn::Linear a, b;
};

/// Every value of the tensors, in 17 digits.
std::string values_of(const Tensors& tensors) {
  std::string out;
  char number[32];
  for (const Tensor& t : tensors) {
    for (const double value : t.to_vector<double>()) {
      std::snprintf(number, sizeof number, "%.17g ", value);
      out += number;
    }
  }
  return out;
}

std::vector<double> numbers_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<double>(in), {}};
}

/// Part `rank` of a batch of 16 that is the same for any number of ranks.
std::pair<Tensor, Tensor> part_of_batch(const ProcessGroup& group) {
  manual_seed(5);
  const Tensor x = randn({16, 6}, {.dtype = kF64}), y = randn({16, 3}, {.dtype = kF64});
  const int64_t part = 16 / group.world_size(), first = part * group.rank();
  return {x.slice(0, first, first + part), y.slice(0, first, first + part)};
}

/// The gradients of one step, then a hash of the parameters after 50.
std::string train(const GroupOptions& options) {
  ProcessGroup group(options);
  manual_seed(static_cast<uint64_t>(10 + options.rank));  // other weights on each rank, until
  Net net(8);
  if (options.rank == 0) {
    manual_seed(1);
    for (const Tensor& p : net.parameters()) {
      NoGrad off;
      p.normal_(0, 0.5);
    }
  }
  replicate(group, net);
  const auto [x, y] = part_of_batch(group);
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::string gradients;
  for (int step = 0; step < 50; ++step) {
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
  for (const int n : {1, 2, 4}) {
    Ranks ranks(n, 30, train);
    const std::vector<std::string> results = ranks.results();
    for (const std::string& result : results) CHECK(result == results[0]);
    if (n == 2) CHECK(Ranks(n, 30, train).results() == results);
    const std::vector<double> gradients = numbers_of(results[0].substr(0, results[0].find('|')));
    CHECK(gradients.size() == 6 * 8 + 8 + 8 * 3 + 3);
    if (n == 1) expected = gradients;
    double worst = 0;
    for (size_t i = 0; i < std::min(gradients.size(), expected.size()); ++i)
      worst = std::max(worst, std::abs(gradients[i] - expected[i]));
    CHECK(worst <= 1e-12);
  }
}

TEST_CASE("models that differ are named, and the group goes on") {
  Ranks ranks(3, 30, [](const GroupOptions& options) {
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
