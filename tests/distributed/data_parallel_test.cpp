// DistributedDataParallel: gradients against one process with the whole batch, and what is refused.
#include "lathe/distributed/data_parallel.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/core/files/hash.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/graph/onnx_files.h"
#include "lathe/tests/graph/pt2_files.h"
#include "parts.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// Several buckets even for a small model.
constexpr DataParallelOptions kSmall{.first_bucket_bytes = 64, .bucket_bytes = 200};

/// The gradients of one process with the whole batch.
std::string expected_gradients() {
  Net net(8);
  set_weights(net);
  const auto [x, y] = part_of_batch(0, 1);
  mse_loss(net(x), y).backward();
  return values_of(grads_of(net));
}

/// Other weights on each rank but rank 0, until they are compared.
void set_weights_of_rank(Net& net, int64_t rank) {
  set_weights(net);
  const NoGrad off;
  if (rank != 0) net.a.weight.mul_(3);
}

/// The gradients of one step, then a hash of the parameters after 50.
std::string train(const GroupOptions& options) {
  ProcessGroup group(options);
  Net net(8);
  set_weights_of_rank(net, options.rank);
  DistributedDataParallel parallel(group, net, kSmall);
  const auto [x, y] = part_of_batch(group.rank(), group.world_size());
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::string gradients;
  for (int step = 0; step < 50; ++step) {
    sgd.zero_grad();
    mse_loss(parallel(x), y).backward();
    if (step == 0) gradients = values_of(grads_of(net));
    sgd.step();
  }
  return gradients + "|" + sha256_hex(values_of(net.parameters()));
}

/// A check in a rank's process: what it throws becomes the rank's result.
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// What `f()` throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

/// One step without a loss weight, of a model that is made and called as `f` says.
using Step = std::function<void(ProcessGroup& group, Net& net, const Tensor& x, const Tensor& y)>;
std::vector<double> gradients_of(int n, const Step& step) {
  Ranks ranks(n, 60, [&](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(8);
    set_weights_of_rank(net, options.rank);
    const auto [x, y] = part_of_batch(group.rank(), group.world_size());
    step(group, net, x, y);
    return values_of(grads_of(net));
  });
  const std::vector<std::string> results = ranks.results();
  for (const std::string& result : results) CHECK(result == results[0]);
  return numbers_of(results[0]);
}

}  // namespace

TEST_CASE("data parallel: 1, 2 and 4 ranks have the gradients of one process, and the same bits") {
  const std::vector<double> expected = numbers_of(expected_gradients());
  std::vector<std::unique_ptr<Ranks>> runs;  // at the same time: ranks mostly wait for each other
  for (const int n : worlds({1, 2, 4})) {
    for (int run = 0; run < 2; ++run) runs.push_back(std::make_unique<Ranks>(n, 60, train));
  }
  for (size_t i = 0; i < runs.size(); i += 2) {
    const std::vector<std::string> results = runs[i]->results();
    for (const std::string& result : results) CHECK(result == results[0]);
    CHECK(runs[i + 1]->results() == results);
    CHECK(farthest(numbers_of(results[0].substr(0, results[0].find('|'))), expected) <= 1e-12);
  }
}

TEST_CASE("data parallel: models from files have the gradients of one process") {
  const auto from_pt2 = []() -> std::unique_ptr<nn::Module> {
    const std::string file = testing::pt2_file(testing::pt2_small_program());
    return std::unique_ptr<nn::Module>(
        new jit::Program(jit::load_program(std::as_bytes(std::span(file)), "m.pt2")));
  };
  const auto from_onnx = []() -> std::unique_ptr<nn::Module> {
    testing::OnnxText text;
    text.input("x", {"n", "2"}).reals("w", {2, 2}, {1, 2, 3, 4}).reals("b", {2}, {0.5f, 1});
    text.node("MatMul", {"x", "w"}, {"h"}).node("Add", {"h", "b"}, {"y"}).output("y");
    return std::unique_ptr<nn::Module>(
        new jit::GraphModule(jit::load_onnx_module(text.file(), "m.onnx")));
  };
  for (const auto& make : {std::function(from_pt2), std::function(from_onnx)}) {
    const auto gradients = [&](nn::Module& model, const Tensor& x, auto&& call) {
      model.to(kF64).to(device());
      call(x.slice(1, 0, 2)).square().mean().backward();
      return values_of(grads_of(model));
    };
    const auto alone = make();
    const std::string expected =
        gradients(*alone, part_of_batch(0, 1).first, [&](const Tensor& x) { return (*alone)(x); });
    Ranks ranks(2, 60, [&](const GroupOptions& options) {
      ProcessGroup group(options);
      const auto model = make();
      model->to(kF64).to(device());
      DistributedDataParallel parallel(group, *model, kSmall);
      return gradients(*model, part_of_batch(group.rank(), 2).first,
                       [&](const Tensor& x) { return parallel(x); });
    });
    for (const std::string& result : ranks.results())
      CHECK(farthest(numbers_of(result), numbers_of(expected)) <= 1e-12);
  }
}

TEST_CASE("data parallel: buckets follow the order in which gradients came on rank 0") {
  struct Three : nn::Module {
    nn::Parameter a = parameter("a", zeros({1})), b = parameter("b", zeros({2})),
                  c = parameter("c", zeros({3}));
    Tensor forward(const Tensor& x) override { return x; }
  };
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Three net;
    std::optional<DistributedDataParallel> parallel;
    std::string out;
    for (int step = 0; step < 5; ++step) {
      if (step == 0 || step == 3) {
        const bool learns = step == 0;
        parallel.reset();
        parallel.emplace(
            group, net,
            DataParallelOptions{.learn_order = learns, .first_bucket_bytes = 1, .bucket_bytes = 1});
      }
      for (const int64_t bytes : parallel->bucket_bytes()) out += concat(bytes, " ");
      net.zero_grad();
      // The last sum that is made has the first gradient: c b a on rank 1, a c b on rank 0.
      const bool first = options.rank == 0;
      const Tensor one = first ? net.b.sum() * 2 : net.a.sum();
      const Tensor two = first ? net.c.sum() * 3 : net.b.sum() * 4;
      const Tensor three = first ? net.a.sum() * 5 : net.c.sum() * 7;
      (one + two + three).backward();
      for (const Tensor& grad : grads_of(net)) out += values_of({grad});
      out += "; ";
    }
    return out;
  });
  ProcessGroup alone({});
  Net net(8);
  CHECK(DistributedDataParallel(alone, net, {.first_bucket_bytes = 1, .bucket_bytes = 1000})
            .bucket_bytes() == std::vector<int64_t>{24, 8 * (24 + 8 + 48)});
  const std::string gradients = "3 3 3 5 5 5 ; ";
  const std::string backwards = "12 8 4 " + gradients, learnt = "4 12 8 " + gradients;
  for (const std::string& result : ranks.results())
    CHECK(result == backwards + learnt + learnt + backwards + backwards);  // twice not to be learnt
}

TEST_CASE("data parallel: no_sync adds up, and the next pass averages the sums") {
  const std::vector<double> expected = numbers_of(expected_gradients());
  for (const int n : {1, 2}) {
    const auto found =
        gradients_of(n, [](ProcessGroup& group, Net& net, const Tensor& x, const Tensor& y) {
          DistributedDataParallel parallel(group, net, kSmall);
          const int64_t half = x.dim(0) / 2;
          const auto loss = [&](int64_t first) {
            return mse_loss(parallel(x.slice(0, first, first + half)),
                            y.slice(0, first, first + half)) /
                   2;
          };
          for (int step = 0; step < 3; ++step) {  // the second one has learnt the order
            net.zero_grad();
            {
              const auto accumulate = parallel.no_sync();
              loss(0).backward();
            }
            const Tensor held = net.a.weight.grad();
            loss(half).backward();
            require(held.is_same(net.a.weight.grad()), "grad() was exchanged");
          }
        });
    CHECK(farthest(found, expected) <= 1e-12);
  }
}

TEST_CASE("data parallel: gradients lie in buckets, and one that is held keeps its values") {
  const auto found =
      gradients_of(2, [](ProcessGroup& group, Net& net, const Tensor& x, const Tensor& y) {
        DistributedDataParallel parallel(group, net);
        const auto step = [&](double scale) {
          net.zero_grad();
          (mse_loss(parallel(x), y) * scale).backward();
        };
        step(1);
        step(1);
        require(parallel.bucket_bytes() == std::vector<int64_t>{8 * (6 * 8 + 8 + 8 * 3 + 3)},
                "buckets");
        require(net.a.weight.grad().impl().storage == net.b.bias.grad().impl().storage, "no views");
        const Tensor held = net.a.weight.grad();
        const std::vector<double> before = held.to_vector<double>();
        step(7);
        require(held.to_vector<double>() == before, "a held gradient changed");
        step(1);
        const void* const memory = net.a.weight.grad().raw_data();
        step(1);
        require(net.a.weight.grad().raw_data() == memory, "new memory, though nobody held it");
      });
  CHECK(farthest(found, numbers_of(expected_gradients())) <= 1e-12);
}

TEST_CASE("data parallel: checkpoints, second derivatives, frozen parameters") {
  const std::vector<double> expected = numbers_of(expected_gradients());
  CHECK(farthest(gradients_of(
                     2,
                     [](ProcessGroup& group, Net& net, const Tensor& x, const Tensor& y) {
                       DistributedDataParallel parallel(group, net, kSmall);
                       for (int step = 0; step < 2; ++step) {
                         net.zero_grad();
                         const Tensor h =
                             checkpoint([&](const Tensors& in) { return relu(net.a(in[0])); }, {x});
                         mse_loss(checkpoint([&](const Tensors& in) { return net.b(in[0]); }, {h}),
                                  y)
                             .backward();
                       }
                     }),
                 expected) <= 1e-12);
  // A penalty on a gradient: grad() with a graph, then one pass whose averages are right.
  const auto penalty = [](ProcessGroup& group, Net& net, const Tensor& x, const Tensor&) {
    net.a.bias.requires_grad_(false);
    DistributedDataParallel parallel(group, net, kSmall);
    const Tensor in = x.clone().requires_grad_();
    const Tensor dx = grad({square(parallel(in)).sum()}, {in}, {.create_graph = true})[0];
    const std::string text =
        message_of([&] { square(net(x)).mean().backward({.create_graph = true}); });
    if (text.find("with create_graph, the averaged") == std::string::npos)
      throw std::runtime_error(text);
    (square(dx).mean() + square(parallel(x)).mean()).backward();
  };
  CHECK(farthest(gradients_of(2, penalty), gradients_of(1, penalty)) <= 1e-12);
}

TEST_CASE("data parallel: a loss that does not depend on a parameter, on one rank or on all") {
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(8);
    set_weights(net);
    DistributedDataParallel parallel(group, net, kSmall);
    const auto [x, y] = part_of_batch(group.rank(), group.world_size());
    const auto half = [&] {
      return message_of(
          [&] { (options.rank == 1 ? net.a(x).sum() : parallel(x).sum()).backward(); });
    };
    std::string out = half();
    if (device().is_cuda()) {  // which is not waited for: the next pass says it
      require(out == "no error", "a GPU was waited for");
      const Tensor before = net.a.weight.grad();
      out = half();
      require(before.is_same(net.a.weight.grad()), "a pass that failed exchanged a gradient");
      net.zero_grad();
    }
    require(grads_of(net).empty(), "a pass that failed changed a gradient");
    mse_loss(parallel(x), y).backward();  // the group goes on
    return out + "|" + values_of(grads_of(net));
  });
  for (const std::string& result : ranks.results()) {
    INFO(result);
    CHECK(result.find("the loss does not depend on these parameters") != std::string::npos);
    CHECK(result.find("(rank 1 (") != std::string::npos);
    CHECK(result.find("): b.weight, b.bias);") != std::string::npos);
    CHECK(farthest(numbers_of(result.substr(result.find('|') + 1)),
                   numbers_of(expected_gradients())) <= 1e-12);
  }
  Ranks found(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(8);
    set_weights(net);
    net.b.bias.requires_grad_(false);
    DataParallelOptions how = kSmall;
    how.find_unused_parameters = true;
    DistributedDataParallel parallel(group, net, how);
    std::string out;
    for (int step = 0; step < 3; ++step) {  // the third one has the second one's memory
      net.zero_grad();
      (options.rank == 1 ? net.a.weight.sum() : (net.a.weight * 3 + net.b.weight.sum()).sum())
          .backward();
      const Tensor of_bias = net.a.bias.grad();
      out += concat(net.a.weight.grad().select(0, 0).select(0, 0).item<double>(), " ",
                    net.b.weight.grad().select(0, 0).select(0, 0).item<double>(), " ",
                    of_bias.defined() ? "a gradient" : "none", "; ");
    }
    return out;
  });
  for (const std::string& result : found.results())
    CHECK(result == "2 24 none; 2 24 none; 2 24 none; ");
}

TEST_CASE("data parallel: sums of no_sync are averaged by a pass that does not need them") {
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    Net net(8);
    DistributedDataParallel parallel(group, net, {.find_unused_parameters = true});
    {
      const auto accumulate = parallel.no_sync();
      (net.a.weight.sum() * static_cast<double>(options.rank + 1)).backward();
    }
    require(
        net.a.weight.grad().sum().item<double>() == 48.0 * static_cast<double>(options.rank + 1),
        "no_sync() averaged");
    net.b.weight.sum().backward();
    return concat(net.a.weight.grad().sum().item<double>(), " ",
                  net.b.weight.grad().sum().item<double>(), " ",
                  net.a.bias.grad().defined() ? "a gradient" : "none");
  });
  for (const std::string& result : ranks.results()) CHECK(result == "72 24 none");
}

TEST_CASE("data parallel: models and options that differ are named on all ranks") {
  const auto all_say = [](const Ranks::Body& body, const char* text) {
    Ranks ranks(2, 60, body);
    for (const std::string& result : ranks.results()) {
      INFO(result);
      CHECK(result.find(text) != std::string::npos);
    }
  };
  all_say(
      [](const GroupOptions& options) -> std::string {
        ProcessGroup group(options);
        Net net(8);
        if (options.rank == 1) net.b.bias.requires_grad_(false);
        const DistributedDataParallel parallel(group, net);
        return "no error";
      },
      ") has b.bias f64[3] (frozen) where rank 0 has b.bias f64[3]");
  all_say(
      [](const GroupOptions& options) -> std::string {
        ProcessGroup group(options);
        Net net(options.rank == 1 ? 9 : 8);
        const DistributedDataParallel parallel(group, net);
        return "no error";
      },
      ") has a.weight f64[9,6] where rank 0 has a.weight f64[8,6]");
  all_say(
      [](const GroupOptions& options) -> std::string {
        ProcessGroup group(options);
        Net net(8);
        DataParallelOptions how;
        if (options.rank == 1) how.bucket_bytes = 7;
        const DistributedDataParallel parallel(group, net, how);
        return "no error";
      },
      ") has bucket_bytes 7 where rank 0 has bucket_bytes 26214400");
  ProcessGroup alone({});
  Net net(8);
  CHECK_THROWS_WITH_AS(DistributedDataParallel(alone, net, {.compress = kF32}),
                       doctest::Contains("must be f16 or bf16, got f32"), ValueError);
  CHECK_THROWS_AS(DistributedDataParallel(alone, net, {.bucket_bytes = 0}), ValueError);
  DistributedDataParallel first(alone, net);
  CHECK_THROWS_WITH_AS(DistributedDataParallel(alone, net),
                       doctest::Contains("has a listener already"), StateError);
}

TEST_CASE("data parallel: parts of different sizes, weighted") {
  // 16 samples as 3 + 13: the last batch of an epoch is seldom even.
  const auto found =
      gradients_of(2, [](ProcessGroup& group, Net& net, const Tensor&, const Tensor&) {
        DistributedDataParallel parallel(group, net, kSmall);
        const auto [x, y] = part_of_batch(0, 1);
        const int64_t first = group.rank() == 0 ? 0 : 3, last = group.rank() == 0 ? 3 : 16;
        const double weight = parallel.loss_weight(last - first);
        (mse_loss(parallel(x.slice(0, first, last)), y.slice(0, first, last)) * weight).backward();
      });
  CHECK(farthest(found, numbers_of(expected_gradients())) <= 1e-12);
  ProcessGroup alone({});
  Net net(8);
  DistributedDataParallel parallel(alone, net);
  CHECK(parallel.loss_weight(5) == 1);
  CHECK_THROWS_WITH_AS(parallel.loss_weight(0), doctest::Contains("no rank has any sample"),
                       ValueError);
}

TEST_CASE("data parallel: gradients that travel as halves") {
  const std::vector<double> expected = numbers_of(expected_gradients());
  for (const DType dtype : {kF16, kBF16}) {
    const auto found =
        gradients_of(2, [dtype](ProcessGroup& group, Net& net, const Tensor& x, const Tensor& y) {
          DataParallelOptions how = kSmall;
          how.compress = dtype;
          DistributedDataParallel parallel(group, net, how);
          mse_loss(parallel(x), y).backward();
        });
    CHECK(farthest(found, expected) <= (dtype == kF16 ? 2e-3 : 1.6e-2));  // of values up to 1
    CHECK(farthest(found, expected) > 1e-6);
  }
  // 40,000 + 40,000 is no f16, the average is one.
  const auto large =
      gradients_of(2, [](ProcessGroup& group, Net& net, const Tensor&, const Tensor&) {
        DataParallelOptions how;
        how.compress = kF16;
        DistributedDataParallel parallel(group, net, how);
        Tensor loss = zeros({}, {.dtype = kF64, .device = device()});
        for (const Tensor& p : net.parameters()) loss = loss + (p * 40'000.0).sum();
        loss.backward();
      });
  for (const double value : large) CHECK(value == 40'000);
}

TEST_CASE("data parallel: a rank that ends in the backward pass is named on all others") {
  const auto run = [](const std::function<void()>& what, const char* cause) {
    Ranks ranks(3, 60, [&](const GroupOptions& options) -> std::string {
      ProcessGroup group(options);
      Net net(8);
      DistributedDataParallel parallel(group, net, kSmall);
      const auto [x, y] = part_of_batch(group.rank(), group.world_size());
      for (int step = 0; step < 1000; ++step) {
        net.zero_grad();
        const Tensor h = relu(net.a(x));
        h.register_hook([&](const Tensor&) {
          if (options.rank == 1 && step == 3) what();
          return Tensor();
        });
        const std::string text = message_of([&] { mse_loss(net.b(h), y).backward(); });
        if (text != "no error") return text;
      }
      return "no error";
    });
    for (const int rank : {0, 2}) {
      const std::string result = ranks.result(rank);
      INFO(result);
      CHECK(result.find("rank 1 (") != std::string::npos);
      CHECK(result.find(cause) != std::string::npos);
    }
  };
  run([] { raise(SIGKILL); }, "ended without a word");
  run([] { LATHE_FAIL(StateError, "no more"); }, "failed: its backward pass failed: no more");
}
