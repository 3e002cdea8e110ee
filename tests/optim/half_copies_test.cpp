// Optimizer::set_half_copies: steps under Autocast have the bits of steps that cast, whatever else
// reads or writes parameters and gradients, also in captured graphs.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/half_copy.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lookahead.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"
#include "make_optimizer.h"

namespace lathe {
namespace {

using namespace test;
using optim::GradScaler;

const Device kGpu(DeviceType::kCUDA);

/// Three weights that Autocast casts and one, `scale`, that it does not.
struct Net : nn::Module {
  nn::Linear first{*this, "first", 5, 6};
  nn::Linear second{*this, "second", 6, 3, {.bias = false}};
  Tensor scale = parameter("scale", full({3}, 1.5));

  Tensor forward(const Tensor& x) override { return mul(second(relu(first(x))), scale); }
};

struct Seeded {
  Seeded() { manual_seed(5); }
};

/// A net on the GPU with the same values in each call.
struct Trained : Seeded {
  explicit Trained(const MakeOptimizer& make, bool keeps, DType half = kF16) : type(half) {
    net.to(kGpu);
    optimizer = make(net.parameters());
    if (keeps) optimizer->set_half_copies();
    x = randn({4, 5}).to(kGpu);
  }

  Tensor loss() {
    const Autocast scope(kGpu, type);
    return square(net(x)).to(kF32).sum();
  }
  void backward() { scaler.scale(loss()).backward(); }
  void update() {
    const optim::ScaledStepOptions options{.max_grad_norm = max_norm, .fused = true};
    if (ahead) {
      ahead->step(scaler, options);
    } else {
      scaler.step(*optimizer, options);
    }
    scaler.update();
    optimizer->zero_grad();
  }
  void step() {
    backward();
    update();
  }
  std::vector<std::vector<double>> state() { return everything(net.parameters(), *optimizer); }

  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Lookahead> ahead;  // null: none
  GradScaler scaler{{.init_scale = 256}};
  Tensor x;
  DType type;
  double max_norm = 0;
};

const MakeOptimizer kSgd = make<optim::SGD>(optim::SGDOptions{.lr = 0.01, .momentum = 0.9});

}  // namespace

TEST_CASE("half copies: every optimiser makes the bits of steps that cast" * cuda_case()) {
  for (const MakeOptimizer& make_optimizer :
       {make<optim::SGD>(optim::SGDOptions{.lr = 0.01}), kSgd,
        make<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .amsgrad = true}),
        make<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.9}),
        make<optim::LAMB>(optim::LAMBOptions{})}) {
    for (const DType type : {kF16, kBF16}) {
      Trained casts(make_optimizer, false, type), keeps(make_optimizer, true, type);
      INFO(std::string(casts.optimizer->name()), ", ", name_of(type));
      for (int s = 0; s < 4; ++s) {
        for (Trained* t : {&casts, &keeps}) {
          if (type == kF16) t->x.mul_(s == 2 ? 1e4 : s == 3 ? 1e-4 : 1);  // the third overflows
          t->max_norm = s == 1 ? 0.5 : 0;
          t->step();
        }
        INFO("step ", s);
        CHECK(keeps.state() == casts.state());
      }
      CHECK(keeps.scaler.read_progress().skipped == casts.scaler.read_progress().skipped);
      CHECK(casts.scaler.read_progress().skipped == (type == kF16 ? 1 : 0));
    }
  }
}

TEST_CASE("half copies: a step launches no casts of weights and gradients" * cuda_case()) {
  const auto launches = [](bool keeps) {
    Trained t(kSgd, keeps);
    uint64_t before = 0;
    for (int s = 0; s < 3; ++s) {
      before = cuda::counters().launches;
      t.step();
    }
    return cuda::counters().launches - before;
  };
  // 3 casts each way; gradients and updates of two kinds are a launch more each.
  CHECK(launches(false) - launches(true) == 2 * 3 - 2);
}

TEST_CASE("half copies: grad() is f32, with the bits of the cast, as are hooks and sums" *
          cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  std::vector<DType> seen;
  keeps.net.second.weight.register_hook([&](const Tensor& g) {
    seen.push_back(g.dtype());
    return Tensor();
  });
  for (Trained* t : {&casts, &keeps}) t->backward();
  const auto all = [](Trained& t) {
    std::vector<std::vector<double>> out;
    for (const Tensor& p : t.net.parameters()) {
      CHECK(p.grad().dtype() == kF32);
      out.push_back(p.grad().to_vector<double>());
    }
    return out;
  };
  CHECK(amp::arrived_grad(keeps.net.first.weight).dtype() == kF16);
  CHECK(amp::arrived_grad(keeps.net.second.weight).dtype() == kF32);  // the hook saw it
  CHECK(seen == std::vector<DType>{kF32});
  CHECK(all(keeps) == all(casts));
  CHECK(keeps.net.first.weight.grad().is_same(keeps.net.first.weight.grad()));
  for (Trained* t : {&casts, &keeps}) {  // added to f32; then halves to halves; two in one pass
    t->backward();
    t->optimizer->zero_grad();
    t->backward();
    t->backward();
    add(t->loss(), t->loss()).backward();
  }
  CHECK(all(keeps) == all(casts));
  const Tensors direct = grad({keeps.loss()}, {keeps.net.first.weight});
  CHECK(direct[0].dtype() == kF32);
  keeps.optimizer->zero_grad();
  keeps.backward();
  keeps.optimizer->zero_grad({.set_to_none = false});
  CHECK(keeps.net.first.weight.grad().to_vector<float>() == std::vector<float>(30, 0));
  CHECK_THROWS_AS(keeps.net.first.weight.set_grad(zeros({6, 5}, {.dtype = kF16, .device = kGpu})),
                  DTypeError);
}

TEST_CASE("half copies: Lookahead writes them too" * cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true), alone(kSgd, true);
  for (Trained* t : {&casts, &keeps})
    t->ahead = std::make_unique<optim::Lookahead>(*t->optimizer, optim::LookaheadOptions{.k = 2});
  const auto launches = [](Trained& t) {
    const uint64_t before = cuda::counters().launches;
    t.step();
    return cuda::counters().launches - before;
  };
  for (int s = 0; s < 5; ++s) {
    INFO("step ", s);
    casts.step();
    const uint64_t with = launches(keeps), without = launches(alone);
    CHECK(keeps.state() == casts.state());
    if (s > 0) CHECK(with - without == 3);  // its count, and weights with and without copies
  }
  CHECK(keeps.loss().item<float>() == casts.loss().item<float>());
}

TEST_CASE("half copies: what others write is seen" * cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  for (Trained* t : {&casts, &keeps}) {
    t->step();
    {
      const NoGrad off;
      t->net.first.weight.mul_(1.25);
    }
    t->step();
    optim::EMA averages(t->net, {.decay = 0.5});
    t->step();
    averages.update();
    {
      const optim::EMA::Applied applied(averages);
      const NoGrad off;
      t->x.add_(t->loss());  // of the averaged weights
    }
    t->step();
    t->net.second.weight.set_data(full({3, 6}, 0.125, {.device = kGpu}));
    t->step();
    t->net.to(kCPU).to(kGpu);
  }
  CHECK(keeps.net.first.weight.to_vector<float>() == casts.net.first.weight.to_vector<float>());
  CHECK(keeps.net.second.weight.to_vector<float>() == casts.net.second.weight.to_vector<float>());
  CHECK(keeps.loss().item<float>() == casts.loss().item<float>());
}

TEST_CASE("half copies: what a graph has saved keeps its values" * cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  std::vector<std::vector<float>> found;
  for (Trained* t : {&casts, &keeps}) {
    t->net.scale.requires_grad_(false);  // saved as it is, so a step would spoil it
    t->step();
    t->x.requires_grad_();
    const Tensor before = t->loss();
    t->step();  // writes the weights that `before` has saved as halves
    t->x.set_grad({});
    before.backward();
    found.push_back(t->x.grad().to_vector<float>());
    t->optimizer->zero_grad();
    t->x.requires_grad_(false);
    t->step();
  }
  CHECK(found[0] == found[1]);
  CHECK(keeps.state() == casts.state());
}

TEST_CASE("half copies: another stream's copy is not read" * cuda_case()) {
  Trained t(kSgd, true);
  t.step();
  const Tensor& weight = t.net.first.weight;
  const auto memory = [&] { return amp::half_copy(weight, kF16).raw_data(); };
  const void* const here = memory();
  CHECK(memory() == here);
  const Tensor held = amp::half_copy(weight, kF16);
  const OwnedStream other(kGpu);
  synchronize(current_stream(kGpu));
  {
    const StreamScope on(other);
    CHECK(memory() != here);
    CHECK_FALSE(amp::half_copy_to_write(t.net.second.weight).defined());
  }
  synchronize(other);
  CHECK(held.to_vector<float>() == weight.to(kF16).to_vector<float>());
}

namespace {

/// Steps kernel by kernel beside launches of a graph of the same step, with `between` before each.
template <class Between>
void compare_captured(Between between, bool shrinks = false, bool looks_ahead = false) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  for (Trained* t : {&casts, &keeps}) {
    if (!looks_ahead) continue;
    t->ahead = std::make_unique<optim::Lookahead>(*t->optimizer, optim::LookaheadOptions{.k = 2});
    t->ahead->set_capturable();
  }
  const auto step = [&](Trained& t) {
    t.step();
    if (!shrinks) return;
    const NoGrad off;
    for (const Tensor& p : t.net.parameters()) p.mul_(0.75);  // beside the optimiser
  };
  keeps.optimizer->set_capturable();
  for (int s = 0; s < 2; ++s) {
    casts.step();
    keeps.step();
  }
  cuda::Graph graph(kGpu);
  graph.capture([&] { step(keeps); });
  for (int s = 0; s < 4; ++s) {
    between(casts, s);
    between(keeps, s);
    step(casts);
    graph.launch();
    CHECK(keeps.state() == casts.state());
  }
  CHECK(keeps.loss().item<float>() == casts.loss().item<float>());
}

}  // namespace

TEST_CASE("half copies: a captured step, launched again and again" * cuda_case()) {
  compare_captured([](Trained&, int) {});
  compare_captured([](Trained&, int) {}, false, true);
}

TEST_CASE("half copies: what is written between launches is seen by the next one" * cuda_case()) {
  compare_captured([](Trained& t, int s) {
    const NoGrad off;
    if (s == 1) t.net.first.weight.mul_(1.5);
    if (s == 2) t.net.second.weight.fill_(0.25);
    if (s == 3) t.x.add_(t.loss() * 1e-3);  // an evaluation in between
  });
}

TEST_CASE("half copies: steps kernel by kernel between launches" * cuda_case()) {
  compare_captured([](Trained& t, int s) {
    if (s != 2) t.step();
  });
}

TEST_CASE("half copies: an evaluation of averages between launches" * cuda_case()) {
  compare_captured([](Trained& t, int s) {
    if (s == 0) return;
    optim::EMA averages(t.net, {.decay = 0.5});
    const NoGrad off;
    t.net.first.weight.mul_(1.125);
    averages.update();
    const optim::EMA::Applied applied(averages);
    t.x.add_(t.loss() * 1e-3);
  });
}

TEST_CASE("half copies: a captured step that writes the weights by itself" * cuda_case()) {
  compare_captured([](Trained&, int) {}, true);
  compare_captured(
      [](Trained& t, int s) {
        const NoGrad off;
        if (s == 2) t.x.add_(t.loss() * 1e-3);
      },
      true);
}

TEST_CASE("half copies: a forward pass in the other half type between launches" * cuda_case()) {
  compare_captured([](Trained& t, int s) {
    if (s % 2 == 0) return;  // at 3, what 1 has read is two launches old
    const NoGrad off;
    const Autocast scope(kGpu, kBF16);
    t.x.add_(square(t.net(t.x)).to(kF32).sum() * 1e-3);
  });
}

TEST_CASE("half copies: a graph that is held while launches go on" * cuda_case()) {
  std::vector<Tensor> held;
  compare_captured([&](Trained& t, int s) {
    if (s == 0) return;
    if (s == 1) held.push_back(t.loss());  // holds the copy: the next one gets other memory
    const NoGrad off;
    if (s == 1) t.net.first.weight.mul_(1.25);
    t.x.add_(t.loss() * 1e-3);
  });
}

TEST_CASE("half copies: an update that is captured alone" * cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  std::vector<cuda::Graph> graphs;
  for (Trained* t : {&casts, &keeps}) {
    t->optimizer->set_capturable();
    t->step();
    t->loss().backward();
    cuda::Graph& graph = graphs.emplace_back(kGpu);
    if (t == &keeps) {  // the next backward pass would leave its gradients elsewhere
      CHECK_THROWS_WITH_AS(graph.capture([&] { t->optimizer->step(); }),
                           doctest::Contains("Capture the backward pass too, or call grad()"),
                           StateError);
    }
    for (const Tensor& p : t->net.parameters()) CHECK(p.grad().dtype() == kF32);
    graph.capture([&] { t->optimizer->step(); });
  }
  for (int s = 0; s < 4; ++s) {
    for (const size_t which : {0, 1}) {
      Trained& t = which == 0 ? casts : keeps;
      graphs[which].launch();
      t.optimizer->zero_grad({.set_to_none = false});
      if (s == 1) {  // another copy takes the place of the one that the graph writes
        const NoGrad off;
        const Autocast scope(kGpu, kBF16);
        t.x.add_(square(t.net(t.x)).to(kF32).sum() * 1e-3);
      }
      t.loss().backward();
    }
    CHECK(keeps.state() == casts.state());
  }
}

TEST_CASE("half copies: a backward pass that is captured alone" * cuda_case()) {
  Trained casts(kSgd, false), keeps(kSgd, true);
  for (Trained* t : {&casts, &keeps}) {
    for (int s = 0; s < 2; ++s) t->step();
    cuda::Graph graph(kGpu);
    graph.capture([&] { t->loss().backward(); });
    for (int s = 0; s < 4; ++s) {
      graph.launch();
      if (s % 2 == 0) optim::clip_grad_norm_(t->net.parameters(), 0.5);
      t->optimizer->step();
    }
  }
  CHECK(keeps.state() == casts.state());
}

TEST_CASE("half copies: nothing changes on the CPU") {
  manual_seed(6);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  optimizer.set_half_copies();
  CHECK_FALSE(amp::half_copy(net.first.weight, kBF16).defined());
  {
    const Autocast scope(kCPU, kBF16);
    net(randn({2, 5})).to(kF32).sum().backward();
  }
  CHECK(amp::arrived_grad(net.first.weight).dtype() == kF32);
}

}  // namespace lathe
