// Batch norm over all ranks against one process with the whole batch.
#include "lathe/distributed/sync_batch_norm.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/graph/compile.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// All ways in which a batch norm is called, [N,6] → [N,3].
struct Normed : nn::Module {
  Normed() {
    to(kF64);
    to(device());
  }
  Tensor forward(const Tensor& x) override {
    const Tensor h = first(a(x)), image = h.reshape({x.dim(0), 2, 2, 2});
    const Tensor k = second.relu(image);
    return b(third.add_relu(k, image).reshape({x.dim(0), 8}));
  }
  nn::Linear a{*this, "a", 6, 8}, b{*this, "b", 8, 3};
  nn::BatchNorm1d first{*this, "first", 8};
  nn::BatchNorm2d second{*this, "second", 2}, third{*this, "third", 2};
};

/// The gradients of two steps without an update and the running statistics, with this rank's
/// samples from `begin` to `end` of 16.
std::string step(ProcessGroup& group, int64_t begin, int64_t end) {
  Normed net;
  set_weights(net);
  if (convert_sync_batch_norm(group, net) != 3) throw std::runtime_error("not three layers");
  DistributedDataParallel parallel(group, net);
  const auto [x, y] = part_of_batch(0, 1);
  std::string out;
  for (int i = 0; i < 2; ++i) {
    net.zero_grad();
    const Tensor found = parallel(x.slice(0, begin, end)), wanted = y.slice(0, begin, end);
    (mse_loss(found, wanted) * parallel.loss_weight(end - begin)).backward();
    out += values_of(grads_of(net));
  }
  for (const auto& [name, buffer] : net.named_buffers()) out += values_of({buffer});
  return out;
}

}  // namespace

TEST_CASE("sync batch norm: gradients and statistics are those of the whole batch in one process") {
  const std::string alone = Ranks(1, 60, [](const GroupOptions& options) {
                              ProcessGroup group(options);
                              return step(group, 0, 16);
                            }).result(0);
  std::vector<std::unique_ptr<Ranks>> runs;  // at the same time: ranks mostly wait for each other
  for (const int n : {2, 4}) {
    for (const bool even : {true, false}) {
      runs.push_back(std::make_unique<Ranks>(n, 60, [=](const GroupOptions& options) {
        ProcessGroup group(options);
        const int64_t part = 16 / n, first = part * options.rank;
        // uneven: each rank but the last one leaves a sample to its neighbour
        const int64_t less = even || options.rank == 0 ? 0 : 1,
                      last = options.rank == n - 1 ? 0 : 1;
        return step(group, first - less, first + part - (even ? 0 : last));
      }));
    }
  }
  for (const auto& run : runs) {
    const std::vector<std::string> results = run->results();
    for (const std::string& result : results) CHECK(result == results[0]);
    CHECK(farthest(numbers_of(results[0]), numbers_of(alone)) <= 1e-12);
  }
}

TEST_CASE("sync batch norm: second derivatives, one value per rank, evaluation") {
  const auto run = [](int n) {
    Ranks ranks(n, 60, [](const GroupOptions& options) {
      ProcessGroup group(options);
      nn::BatchNorm1d norm(6);
      norm.to(kF64);
      norm.to(device());
      set_weights(norm);
      const auto [all, y] = part_of_batch(0, 1);
      const auto compiled =
          jit::compile([&](const Tensors& t) { return Tensors{norm(t[0])}; }, &norm);
      compiled({all.slice(0, 0, 2)});  // a graph of it, which the ranks are not in
      convert_sync_batch_norm(group, norm);
      // two samples: with two ranks, one value per channel and rank
      const int64_t part = 2 / group.world_size(), first = part * group.rank();
      const Tensor x = all.slice(0, first, first + part).clone().requires_grad_();
      const Tensor loss = square(norm(x) * x).sum();
      const Tensor dx = grad({loss}, {x}, {.create_graph = true})[0];
      const Tensor ddx = grad({square(dx).sum()}, {x})[0];
      // Four samples, since a graph is for two rows and more.
      const int64_t rows = 4 / group.world_size(), row = rows * group.rank();
      const Tensor by_graph = compiled({all.slice(0, row, row + rows)})[0];
      norm.eval();
      std::string out;
      for (const Tensor& part_of : {dx, ddx, by_graph, norm(x)}) {
        const Tensor whole =
            zeros({group.world_size(), part_of.dim(0), 6}, {.dtype = kF64, .device = device()});
        group.all_gather_(whole, part_of.detach()).wait();
        out += values_of({whole});
      }
      return out;
    });
    return ranks.result(0);
  };
  CHECK(farthest(numbers_of(run(2)), numbers_of(run(1))) <= 1e-9);  // of values up to 100
}

TEST_CASE("sync batch norm: a function that was compiled before goes on with all ranks' values") {
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    nn::BatchNorm1d norm(6), twin(6);
    const jit::CompiledFunction compiled =
        jit::compile([&](const Tensors& t) { return Tensors{norm(t[0])}; }, &norm);
    norm.to(device());
    twin.to(device());
    const Tensor x = randn({4, 6}, {.device = device()}) + group.rank();
    bool same = equal(compiled({x})[0], twin(x));
    for (nn::BatchNorm1d* const layer : {&norm, &twin}) convert_sync_batch_norm(group, *layer);
    for (int call = 0; call < 2; ++call) same = same && equal(compiled({x})[0], twin(x));
    same = same && equal(norm.running_mean, twin.running_mean);
    return std::string(same ? "the same" : "other values");
  });
  for (const std::string& result : ranks.results()) CHECK(result == "the same");
}
