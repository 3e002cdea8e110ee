// train::Step against the loop that it stands for, written out; as a CUDA graph against the same
// step that is not captured; and what it refuses.
#include "lathe/train/step.h"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/error.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/join.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/sgd.h"
#include "lathe/train/losses.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

struct Batches {
  std::vector<Tensors> all;

  Batches(const std::vector<int64_t>& sizes, Device device) {
    Generator generator(5);
    for (const int64_t n : sizes) {
      all.push_back({randn({n, 6}, {.device = kCPU}, &generator).to(device),
                     randint(0, 3, {n}, {}, &generator).to(device)});
    }
  }
};

void build(nn::Sequential& net, bool batch_norm = true) {
  manual_seed(11);
  net.add<nn::Linear>(6, 8);
  if (batch_norm) net.add<nn::BatchNorm1d>(8);
  net.add<nn::ReLU>();
  net.add<nn::Linear>(8, 3);
}

std::vector<float> weights_of(const nn::Module& net) {
  std::vector<float> out;
  for (const auto& [name, t] : net.state_dict()) {
    for (const float v : t.to(kCPU).to(kF32).to_vector<float>()) out.push_back(v);
  }
  return out;
}

struct Options {
  std::string amp = "off";
  double clip = 0;
  bool ema = false;
};

/// The loop by hand, as PyTorch's documentation writes it.
std::vector<float> by_hand(const Options& o, Device device, const Batches& batches) {
  nn::Sequential net;
  build(net);
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::GradScaler scaler({.enabled = o.amp == "fp16"});
  std::optional<optim::EMA> ema;
  if (o.ema) ema.emplace(net, optim::EMAOptions{.decay = 0.5});
  for (const Tensors& batch : batches.all) {
    Tensor loss;
    {
      const Autocast half(device, o.amp == "bf16" ? kBF16 : kF16, o.amp != "off");
      loss = cross_entropy(net(batch[0]), batch[1]);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    if (o.clip > 0) optim::clip_grad_norm_(net.parameters(), o.clip);
    scaler.step(optimizer);
    if (ema) ema->update({.found_inf = scaler.found_inf(optimizer)});
    scaler.update();
    optimizer.zero_grad();
  }
  if (ema) net.load_state_dict(ema->module_state());
  return weights_of(net);
}

std::vector<float> by_step(const Options& o, Device device, const Batches& batches, bool capture,
                           size_t* recorded = nullptr) {
  nn::Sequential net;
  build(net);
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::optional<optim::EMA> ema;
  if (o.ema) ema.emplace(net, optim::EMAOptions{.decay = 0.5});
  train::Step step(
      net, optimizer, train::classification(net),
      {.amp = o.amp, .clip_grad_norm = o.clip, .ema = ema ? &*ema : nullptr, .capture = capture});
  for (const Tensors& batch : batches.all) step(batch);
  if (recorded != nullptr && step.graphs() != nullptr) *recorded = step.graphs()->recorded();
  if (ema) net.load_state_dict(ema->module_state());
  return weights_of(net);
}

const Options kOptions[] = {
    {}, {.amp = "bf16"}, {.amp = "fp16"}, {.clip = 0.5}, {.amp = "fp16", .clip = 0.5, .ema = true}};

}  // namespace

TEST_CASE("train step: has the bits of the loop that it stands for") {
  const Batches batches({4, 4, 4, 3}, kCPU);
  for (const Options& o : kOptions) {
    CAPTURE(o.amp);
    CAPTURE(o.clip);
    CHECK(by_step(o, kCPU, batches, true) == by_hand(o, kCPU, batches));
  }
}

TEST_CASE("train step: as a CUDA graph has the bits of the loop that it stands for" *
          test::cuda_case()) {
  const Batches batches({4, 4, 4, 4, 4, 3}, kGpu);
  for (const Options& o : kOptions) {
    CAPTURE(o.amp);
    CAPTURE(o.clip);
    size_t recorded = 0;
    const std::vector<float> expected = by_hand(o, kGpu, batches);
    CHECK(by_step(o, kGpu, batches, false) == expected);
    CHECK(by_step(o, kGpu, batches, true, &recorded) == expected);
    CHECK(recorded == 1);
  }
}

// The mean over 4 + 4 + 2 samples; in f64, where sums in another order agree to 1e-12.
TEST_CASE("train step: an update of several batches is that of one batch that holds them all") {
  const Batches parts({4, 4, 2}, kCPU);
  Tensors whole;
  for (size_t i = 0; i < 2; ++i)
    whole.push_back(cat({parts.all[0][i], parts.all[1][i], parts.all[2][i]}, 0));
  const auto train = [](const std::vector<Tensors>& batches, int64_t accumulate) {
    nn::Sequential net;
    build(net, false);
    net.to(kF64);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    const auto loss = [&](const Tensors& batch) {
      const Tensor scores = net(batch[0].to(kF64));
      return train::Result{cross_entropy(scores, batch[1]), scores, batch[1]};
    };
    train::Step step(net, optimizer, loss, {.accumulate = accumulate});
    for (size_t i = 0; i < batches.size(); ++i) {
      step(batches[i], {.last = i + 1 == batches.size()});
      CHECK(step.ends_update() == (i + 1 == batches.size()));
      CHECK(step.batches() == (step.ends_update() ? 0 : static_cast<int64_t>(i) + 1));
    }
    return net.parameters();
  };
  const Tensors one = train({whole}, 1);
  for (const int64_t accumulate : {3, 5}) {  // 5: the epoch ends before the window is full
    const Tensors several = train(parts.all, accumulate);
    for (size_t i = 0; i < one.size(); ++i)
      CHECK(max(abs(one[i] - several[i])).item<double>() < 1e-12);
  }
}

// Two updates can end with batches of one shape and have different sums of weights.
TEST_CASE("train step: captured updates of batches of many sizes have the bits of queued ones" *
          test::cuda_case()) {
  std::vector<int64_t> sizes;
  for (int round = 0; round < 4; ++round) {
    for (const int64_t n : {4, 4, 4, 4, 2, 4, 3, 2, 3}) sizes.push_back(n);
  }
  const Batches batches(sizes, kGpu);
  const auto train = [&](bool capture, size_t& recorded) {
    nn::Sequential net;
    build(net);
    net.to(kGpu);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    train::Step step(net, optimizer, train::classification(net),
                     {.accumulate = 3, .capture = capture});
    for (const Tensors& batch : batches.all) step(batch);
    if (step.graphs() != nullptr) recorded = step.graphs()->recorded();
    return weights_of(net);
  };
  size_t recorded = 0, none = 0;
  CHECK(train(true, recorded) == train(false, none));
  CHECK(recorded >= 4);  // the first, the next, and the last one of updates of 12 and 10 samples
}

TEST_CASE("train step: two optimisers take turns as in a GAN") {
  const auto train = [](bool by_steps) {
    manual_seed(3);
    nn::Linear generator(2, 4), critic(4, 1);
    optim::Adam of_generator(generator.parameters(), {.lr = 0.01});
    optim::Adam of_critic(critic.parameters(), {.lr = 0.01});
    const auto critic_loss = [&](const Tensors& in) {
      return train::Result{(critic(generator(in[1]).detach()) - critic(in[0])).mean()};
    };
    const auto generator_loss = [&](const Tensors& in) {
      return train::Result{-critic(generator(in[0])).mean()};
    };
    train::Step critic_step(critic, of_critic, critic_loss);
    train::Step generator_step(generator, of_generator, generator_loss);
    for (int i = 0; i < 3; ++i) {
      const Tensor real = randn({5, 4}), noise = randn({5, 2});
      if (by_steps) {
        critic_step({real, noise});
        generator_step({noise});
        continue;
      }
      of_critic.zero_grad();
      critic_loss({real, noise}).loss.backward();
      of_critic.step();
      of_generator.zero_grad();
      generator_loss({noise}).loss.backward();  // leaves gradients in the critic
      of_generator.step();
    }
    std::vector<float> out = weights_of(generator);
    for (const float v : weights_of(critic)) out.push_back(v);
    return out;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("train step: its parts in another order, or a bad loss, are errors") {
  nn::Sequential net;
  build(net);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto refuses = [&](const train::StepOptions& options) {
    CHECK_THROWS_AS(train::Step(net, optimizer, train::classification(net), options), ValueError);
  };
  refuses({.amp = "half"});
  refuses({.accumulate = 0});
  refuses({.clip_grad_norm = -1});
  refuses({.clip_grad_norm = std::numeric_limits<double>::infinity()});
  CHECK_THROWS_WITH_AS(train::Step(net, optimizer, {}), doctest::Contains("loss function is empty"),
                       ValueError);

  const Batches batches({4}, kCPU);
  train::Step step(net, optimizer, train::classification(net));
  CHECK_THROWS_WITH_AS(step.backward(), doctest::Contains("forward() must come first"), StateError);
  CHECK_THROWS_WITH_AS(step.update(), doctest::Contains("needs a batch that ends an update"),
                       StateError);
  CHECK_THROWS_WITH_AS(step(Tensors{}), doctest::Contains("it has no tensors"), ValueError);
  CHECK_THROWS_AS(step({batches.all[0][0]}), ValueError);  // no labels
  step.forward(batches.all[0], {});
  CHECK_THROWS_WITH_AS(step.forward(batches.all[0], {}), doctest::Contains("backward()"),
                       StateError);
  step.backward();
  CHECK_THROWS_WITH_AS(step.forward(batches.all[0], {}), doctest::Contains("update()"), StateError);
  step.discard();
  CHECK_FALSE(net.parameters()[0].grad().defined());

  train::Step rows(net, optimizer, [&](const Tensors& in) { return train::Result{net(in[0])}; });
  CHECK_THROWS_WITH_AS(rows(batches.all[0]), doctest::Contains("f32[4,3]"), ValueError);
}

TEST_CASE("train step: after an error the next update is as if the batch had not been there") {
  const Batches batches({4, 4}, kCPU);
  const auto train = [&](bool fails) {
    nn::Sequential net;
    build(net, false);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    bool throws = false;
    train::Step step(net, optimizer,
                     [&](const Tensors& in) {
                       if (throws) LATHE_FAIL(ValueError, "planted");
                       return train::classification(net)(in);
                     },
                     {.accumulate = 2});
    if (fails) {
      step(batches.all[0]);
      throws = true;
      CHECK_THROWS_AS(step(batches.all[1]), ValueError);
      throws = false;
    }
    for (const Tensors& batch : batches.all) step(batch);
    return weights_of(net);
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("train step: look sees the gradients that the optimiser has used") {
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 1.0});
  train::Step step(
      net, optimizer, [&](const Tensors& in) { return train::Result{net(in[0]).mean() * 100}; },
      {.amp = "fp16", .scaling = optim::GradScalerOptions{.init_scale = 8}, .clip_grad_norm = 0.5});
  const Tensor before = net.weight.detach().clone();
  Tensor used;
  step.forward({full({4, 2}, 3.0)}, {});
  step.backward();
  step.update([&] { used = net.weight.grad().clone(); });
  CHECK(max(abs(before - net.weight.detach() - used)).item<double>() < 1e-6);
  CHECK(sqrt(sum(square(used))).item<double>() < 0.5);
  CHECK_FALSE(net.weight.grad().defined());
}

TEST_CASE("train step: one that waits for the GPU is not captured, and says why" *
          test::cuda_case()) {
  nn::Sequential net;
  build(net);
  net.to(kGpu);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  train::Step step(net, optimizer, [&](const Tensors& in) {
    const Tensor scores = net(in[0]);
    scores.sum().item<double>();
    return train::Result{cross_entropy(scores, in[1]), scores, in[1]};
  });
  const Batches batches({4, 4, 4, 4}, kGpu);
  for (const Tensors& batch : batches.all) step(batch);
  CHECK(step.graphs()->recorded() == 0);
  CHECK(step.graphs()->take_problem().find("item: a step that is captured") != std::string::npos);
  const std::vector<float> waits = weights_of(net);
  CHECK(waits == by_step({}, kGpu, batches, false));
}
