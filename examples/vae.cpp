// A variational auto-encoder: it learns to squeeze images into a few numbers, in such a way that
// numbers drawn at random give new images.
//
// The encoder says for each image which normal distribution its code z has. The code is drawn from
// it by the reparametrisation z = mean + std * noise, through which gradients flow to mean and std.
// The loss is minus the evidence lower bound: what the image costs, given its code (cross-entropy
// of each pixel), and what the code costs (the divergence of its distribution from N(0,1)).
//
//   vae [STEPS [WEIGHTS]]      WEIGHTS: a file with the weights to begin from
// ref: Kingma and Welling 2014 (arXiv:1312.6114).
#include <lathe/lathe.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

constexpr int64_t kSize = 16, kPixels = kSize * kSize, kCode = 8;

struct VAE : nn::Module {
  nn::Linear encode{*this, "encode", kPixels, 256}, mean{*this, "mean", 256, kCode},
      log_variance{*this, "log_variance", 256, kCode};
  nn::Linear decode{*this, "decode", kCode, 256}, image{*this, "image", 256, kPixels};

  /// The logits of the pixels, [N,256].
  Tensor decoded(const Tensor& z) { return image(lathe::relu(decode(z))); }

  struct Loss {
    Tensor image, code;  // nats per image
  };
  Loss loss(const Tensor& x) {
    const Tensor h = lathe::relu(encode(x)), mu = mean(h), lv = log_variance(h);
    const Tensor z = mu + (0.5 * lv).exp() * lathe::randn_like(mu);
    const double count = static_cast<double>(x.size(0));
    return {lathe::bce_with_logits(decoded(z), x, {.reduction = lathe::Reduction::kSum}) / count,
            0.5 * (mu.square() + lv.exp() - 1 - lv).sum() / count};
  }
};

/// Filled rectangles of any place and size, as rows of 0 and 1: [N,256].
Tensor rectangles(int64_t count, std::mt19937& random) {
  std::vector<float> pixels(static_cast<size_t>(count * kPixels));
  for (int64_t n = 0; n < count; ++n) {
    const int64_t width = 4 + random() % 7, height = 4 + random() % 7;
    const int64_t left = random() % (kSize - width + 1), top = random() % (kSize - height + 1);
    for (int64_t row = top; row < top + height; ++row)
      for (int64_t col = left; col < left + width; ++col)
        pixels[static_cast<size_t>(n * kPixels + row * kSize + col)] = 1;
  }
  return lathe::tensor(pixels).view({count, kPixels});
}

/// Prints images side by side, from the probabilities of their pixels.
void show(const Tensor& images) {
  for (int64_t row = 0; row < kSize; ++row) {
    for (int64_t n = 0; n < images.size(0); ++n) {
      for (const float p : images[n].view({kSize, kSize})[row].to_vector<float>())
        std::cout << (p > 0.75 ? '#' : p > 0.25 ? '+' : '.');
      std::cout << "  ";
    }
    std::cout << '\n';
  }
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 5000;
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  lathe::manual_seed(1);
  std::mt19937 random(1);
  VAE vae;
  if (argc > 2) nn::load(vae, argv[2]);
  vae.to(device);
  lathe::manual_seed(2);  // the noise is the same for every model
  std::cout.precision(8);
  optim::Adam opt(vae.parameters(), {.lr = 2e-3});

  lathe::train::Step train(vae, opt, [&](const lathe::Tensors& batch) {
    const auto [image, code] = vae.loss(batch[0]);
    return lathe::train::Result{.loss = image + code, .output = image, .target = code};
  });
  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    const auto [loss, image, code, samples] = train({rectangles(128, random).to(device)});
    if (step <= 10 || step % 500 == 0 || step == steps) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      std::cout << seconds.count() << " s  step " << step << "  loss " << loss.item<float>()
                << "  image " << image.item<float>() << "  code " << code.item<float>()
                << std::endl;
    }
  }

  const lathe::NoGrad off;
  std::cout << "from random codes:\n";
  show(vae.decoded(lathe::randn({6, kCode}).to(device)).sigmoid());
  const auto [image, code] = vae.loss(rectangles(2000, random).to(device));
  std::cout << "minus the evidence lower bound, nats per new image: "
            << (image + code).item<float>() << '\n';
}
