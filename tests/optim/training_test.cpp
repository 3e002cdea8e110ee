// Modules, losses, optimisers and schedules together: small problems that must be learned.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/losses.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/scheduler.h"
#include "lathe/optim/sgd.h"

namespace lathe {
namespace {

TEST_CASE(
    "training: least squares ends at the coefficients that made the data, with every optimiser") {
  Generator generator(4);
  const Tensor x = randn({64, 3}, {}, &generator);
  const Tensor truth = tensor({{2.f, -1.f, 0.5f}});
  nn::Linear maker(3, 1, {.bias = false});
  maker.weight.set_data(truth);
  const Tensor y = maker(x).detach();
  const auto train = [&](auto make, int steps) {
    nn::Linear model(3, 1);
    auto optimizer = make(model.parameters());
    optim::LinearLR schedule(*optimizer,
                             {.start_factor = 1, .end_factor = 0, .total_iters = steps});
    for (int s = 0; s < steps; ++s) {
      optimizer->zero_grad();
      nn::MSELoss{}(model(x), y).backward();
      optimizer->step();
      schedule.step();
    }
    for (size_t i = 0; i < 3; ++i) {
      CHECK(model.weight.to_vector<float>()[i] ==
            doctest::Approx(truth.to_vector<float>()[i]).epsilon(0.01));
    }
    CHECK(model.bias.item<float>() == doctest::Approx(0).epsilon(0.01));
  };
  using namespace optim;
  train(
      [](Tensors p) {
        return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
      },
      100);
  train([](Tensors p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1}); }, 200);
  train(
      [](Tensors p) {
        return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.1, .weight_decay = 0});
      },
      200);
  train([](Tensors p) { return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.05}); }, 300);
}

TEST_CASE("training: a two-layer network learns exclusive or") {
  manual_seed(3);
  const Tensor x = tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
  const Tensor labels = tensor({0, 1, 1, 0}, {.dtype = kI64});
  nn::Sequential model;
  model.add<nn::Linear>(2, 8);
  model.add<nn::Tanh>();
  model.add<nn::Linear>(8, 2);
  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  for (int s = 0; s < 300; ++s) {
    optimizer.zero_grad();
    nn::CrossEntropyLoss{}(model(x), labels).backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
  }
  const NoGrad off;
  CHECK(argmax(model(x), 1).to_vector<int>() == std::vector<int>{0, 1, 1, 0});
}

TEST_CASE("training: a small ResNet learns four images by heart, and evaluates as it trained") {
  manual_seed(5);
  auto model = nn::resnet8({.classes = 4});
  const Tensor x = randn({4, 3, 16, 16}), labels = tensor({2, 0, 3, 1}, {.dtype = kI64});
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
  float first = 0, last = 0;
  for (int s = 0; s < 25; ++s) {
    optimizer.zero_grad();
    const Tensor loss = nn::CrossEntropyLoss{}(model(x), labels);
    loss.backward();
    optimizer.step();
    last = loss.item<float>();
    if (s == 0) first = last;
  }
  CHECK(first > 0.7f);
  CHECK(last < 0.05f);
  model.eval();
  const NoGrad off;
  CHECK(argmax(model(x), 1).to_vector<int>() == std::vector<int>{2, 0, 3, 1});
}

TEST_CASE("training: the first loss in a half type is that of f32, to a hundredth") {
  manual_seed(5);
  nn::CifarResNet model = nn::resnet8();
  model.to(kChannelsLast);
  const Tensor x = randn({16, 3, 16, 16}).contiguous(kChannelsLast);
  const Tensor labels = randint(0, 10, {16});
  const auto first_loss = [&](DType dtype, bool half) {
    for (const Tensor& p : model.parameters()) p.set_grad({});
    const Autocast scope(kCPU, dtype, half);
    const Tensor loss = cross_entropy(model(x).to(kF32), labels);
    loss.backward();
    return loss.item<double>();
  };
  const double expected = first_loss(kBF16, false);
  for (const DType dtype : {kBF16, kF16}) {
    INFO(name_of(dtype));
    CHECK(std::abs(first_loss(dtype, true) - expected) < 1e-2);
    for (const Tensor& p : model.parameters()) CHECK(p.grad().dtype() == kF32);
  }
}

}  // namespace
}  // namespace lathe
