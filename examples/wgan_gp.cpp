// A generative adversarial network on points of the plane: a Wasserstein GAN with gradient penalty.
//
// The critic gives points a score and widens the gap between real and generated ones; the generator
// closes it. The gap measures how far apart the two are only if the critic's slope is at most 1. So
// the loss has a penalty on |slope| - 1 between real and generated points: a gradient inside a
// loss, whose own gradient is taken next (create_graph).
//
//   wgan_gp [STEPS]
// ref: Gulrajani et al. 2017 (arXiv:1704.00028).
#include <lathe/lathe.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>
#include <string>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
namespace train = lathe::train;
using lathe::Tensor;

constexpr int64_t kModes = 8, kNoise = 8;
constexpr double kRadius = 2, kSpread = 0.1;
constexpr double kPenalty = 0.1;  // its weight in the loss; for images the paper takes 10

/// The centres of the eight real clusters, on a ring: [8,2].
Tensor centres() {
  const Tensor angle = lathe::arange(kModes) * (2 * std::numbers::pi / kModes);
  return kRadius * lathe::stack({angle.cos(), angle.sin()}, 1);
}

Tensor real_points(int64_t count) {
  const Tensor mode = lathe::randint(0, kModes, {count});
  return centres().index({mode}) + kSpread * lathe::randn({count, 2});
}

struct Network : nn::Module {
  nn::Linear first, second, last;

  Network(int64_t in, int64_t out)
      : first(*this, "first", in, 128),
        second(*this, "second", 128, 128),
        last(*this, "last", 128, out) {}
  Tensor forward(const Tensor& x) override {
    return last(lathe::relu(second(lathe::relu(first(x)))));
  }
};

/// The mean of (|slope| - 1)^2 at random places between pairs of real and generated points.
Tensor gradient_penalty(Network& critic, const Tensor& real, const Tensor& fake) {
  const Tensor mix = lathe::rand({real.size(0), 1}, {.device = real.device()});
  const Tensor between = (mix * real + (1 - mix) * fake).detach().requires_grad_();
  // The sum's gradient holds each point's own, because a score depends on its own point only.
  const Tensor slope = lathe::grad({critic(between).sum()}, {between}, {.create_graph = true})[0];
  return (slope.norm({1}) - 1).square().mean();
}

/// A picture of where the points are, 2 characters to each cell.
void show(const Tensor& points) {
  constexpr int kCells = 25;
  std::string picture(kCells * kCells, '.');
  const std::vector<float> at = points.to_vector<float>();
  for (size_t i = 0; i < at.size(); i += 2) {
    const auto cell = [](float x) { return static_cast<int>(std::floor((x + 2.5) / 5 * kCells)); };
    const int col = cell(at[i]), row = cell(at[i + 1]);
    if (col < 0 || col >= kCells || row < 0 || row >= kCells) continue;
    picture[static_cast<size_t>(row * kCells + col)] = '#';
  }
  for (int row = 0; row < kCells; ++row) {
    for (int col = 0; col < kCells; ++col) {
      std::cout << ' ' << picture[static_cast<size_t>(row * kCells + col)];
    }
    std::cout << '\n';
  }
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 3000, batch = 128;
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  lathe::manual_seed(1);
  Network critic(2, 1), generator(kNoise, 2);
  critic.to(device);
  generator.to(device);
  optim::Adam critic_opt(critic.parameters(), {.lr = 4e-3, .betas = {0.5, 0.9}});
  optim::Adam generator_opt(generator.parameters(), {.lr = 4e-3, .betas = {0.5, 0.9}});
  optim::LinearLR critic_lr(critic_opt,
                            {.start_factor = 1, .end_factor = 0.05, .total_iters = steps});
  optim::LinearLR generator_lr(generator_opt,
                               {.start_factor = 1, .end_factor = 0.05, .total_iters = steps});
  const auto noise = [&](int64_t count) {
    return lathe::randn({count, kNoise}, {.device = device});
  };

  // Two steps take turns, each with an optimiser of its own.
  train::Step train_critic(critic, critic_opt, [&](const lathe::Tensors& in) {
    const Tensor real = in[0], fake = generator(in[1]).detach();
    const Tensor gap = critic(real).mean() - critic(fake).mean();
    return train::Result{.loss = kPenalty * gradient_penalty(critic, real, fake) - gap,
                         .output = gap};
  });
  train::Step train_generator(generator, generator_opt, [&](const lathe::Tensors& in) {
    return train::Result{.loss = -critic(generator(in[0])).mean()};
  });

  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    Tensor gap;
    for (int i = 0; i < 3; ++i)  // the critic learns faster, so that its gap means something
      gap = train_critic({real_points(batch).to(device), noise(batch)}).output;
    train_generator({noise(batch)});
    critic_lr.step();
    generator_lr.step();
    if (step % 500 == 0 || step == steps) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      std::cout << seconds.count() << " s  step " << step << "  gap " << gap.item<float>()
                << std::endl;
    }
  }

  const lathe::NoGrad off;
  const Tensor made = generator(noise(2000)).cpu();
  show(made);
  const auto [distance, mode] = lathe::cdist(made, centres()).min(1);
  const Tensor near = distance < 4 * kSpread;
  const Tensor hits = lathe::bincount(mode.index({near}), {.min_length = kModes});
  std::cout << "points near a cluster: " << near.to(lathe::kF32).mean().item<float>()
            << ", clusters found: " << (hits > 40).sum().item<int64_t>() << " of " << kModes
            << '\n';
}
