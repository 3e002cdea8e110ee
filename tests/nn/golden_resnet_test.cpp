// ResNet training steps against PyTorch's numbers: golden_resnet.h, made by golden_resnet.py, which
// says how weights, images and labels are built.
#include "golden_resnet.h"

#include <doctest/doctest.h>

#include <cmath>

#include "golden_training.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/views.h"
#include "lathe/optim/sgd.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr uint32_t kSigns = 3000;  // a stream of numbers

/// Trains as golden_resnet.py does; → the loss before each step. The gradients of the last step
/// stay.
std::vector<double> train(nn::Module& net, uint32_t steps, int64_t n, int64_t size, DType dtype,
                          uint32_t first = 0) {
  net.to(dtype);
  fill(net);
  net.train();
  optim::SGD opt(net.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  std::vector<double> losses;
  for (uint32_t step = 0; step < steps; ++step) {
    const Batch batch = batch_of(first + step, n, size, dtype);
    opt.zero_grad();
    const Tensor loss = cross_entropy(net(batch.x), batch.y);
    loss.backward();
    losses.push_back(loss.item<double>());
    if (step + 1 < steps) opt.step();
  }
  return losses;
}

template <size_t N>
void check_losses(const std::vector<double>& got, const double (&want)[N]) {
  REQUIRE(got.size() == N);
  for (size_t i = 0; i < N; ++i) {
    // 1e-9: f64 rounds at 1e-16, and 50 steps amplify that by far less than 1e7.
    CHECK_MESSAGE(std::fabs(got[i] - want[i]) <= 1e-9 * std::fabs(want[i]), "step ", i, ": got ",
                  got[i], ", PyTorch ", want[i]);
  }
}

}  // namespace

TEST_CASE("ResNet-20 in f64: 50 training steps give PyTorch's losses") {
  auto net = nn::resnet20({.classes = 10});
  check_losses(train(net, 50, 8, 16, kF64), kResnet20Losses);
}

TEST_CASE("ResNet-18 in f64: training steps give PyTorch's losses") {
  auto net = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  check_losses(train(net, 3, 2, 16, kF64), kResnet18Losses);
}

TEST_CASE("ResNet-18: loss and every gradient of the first step, in f64 and in f32") {
  auto net = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  auto net32 = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const double loss = train(net, 1, 2, 16, kF64, kQuietStep)[0];
  CHECK(std::fabs(loss - kResnet18Loss) <= 1e-9 * kResnet18Loss);
  cpu::set_conv_exact(true);
  const double loss32 = train(net32, 1, 2, 16, kF32, kQuietStep)[0];
  cpu::set_conv_exact(false);
  CHECK(std::fabs(loss32 - kResnet18Loss) <= 1e-5 * kResnet18Loss);
  const auto parameters = net.named_parameters(), parameters32 = net32.named_parameters();
  REQUIRE(parameters.size() == std::size(kResnet18Gradients));
  for (size_t k = 0; k < parameters.size(); ++k) {
    const GoldenGradient& want = kResnet18Gradients[k];
    CHECK(parameters[k].first == want.name);
    const std::vector<double> g = parameters[k].second.grad().to_vector<double>();
    const std::vector<double> g32 = parameters32[k].second.grad().to_vector<double>();
    double square = 0, error = 0, products[3] = {};
    for (size_t i = 0; i < g.size(); ++i) {
      square += g[i] * g[i];
      error += (g[i] - g32[i]) * (g[i] - g32[i]);
      for (uint32_t s = 0; s < 3; ++s) {
        products[s] += uniform(kSigns + s, static_cast<uint32_t>(i)) < 0 ? -g[i] : g[i];
      }
    }
    // The product of an error with random signs has the size of the error's norm.
    CHECK_MESSAGE(std::fabs(std::sqrt(square) - want.norm) <= 1e-9 * want.norm, want.name);
    for (int s = 0; s < 3; ++s) {
      CHECK_MESSAGE(std::fabs(products[s] - want.products[s]) <= 1e-9 * want.norm, want.name);
    }
    // f32: an activation that rounding moves across zero switches its gradient on or off, and one
    // such switch changes a gradient's norm by about 1e-3. The images are chosen so that none is so
    // close to zero, whichever way a processor sums: the rest is rounding.
    CHECK_MESSAGE(std::sqrt(error) <= 1e-4 * want.norm, want.name, ": ",
                  std::sqrt(error) / want.norm);
  }
}
