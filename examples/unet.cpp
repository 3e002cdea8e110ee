// A small U-Net that finds shapes in noisy images: for each pixel, background, disc or square.
//
// The way down sees more and more of the image, in fewer and fewer pixels; the way up brings the
// size back. At each size, the way up also gets what the way down had there (cat), because the
// exact borders are lost in between.
//
//   unet [STEPS]
// ref: Ronneberger, Fischer and Brox 2015 (arXiv:1505.04597).
#include <lathe/lathe.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

constexpr int64_t kSize = 32, kClasses = 3;

/// Twice a 3x3 convolution with batch norm and relu.
struct Twice : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;

  Twice(Module& parent, const std::string& name, int64_t in, int64_t out)
      : Module(parent, name),
        conv1(*this, "conv1", in, out, {.kernel = 3, .pad = 1, .bias = false}),
        conv2(*this, "conv2", out, out, {.kernel = 3, .pad = 1, .bias = false}),
        bn1(*this, "bn1", out),
        bn2(*this, "bn2", out) {}

  Tensor forward(const Tensor& x) override {
    return bn2.relu(conv2(bn1.relu(conv1(x))));  // batch norm and relu in one kernel
  }
};

struct UNet : nn::Module {
  Twice down1{*this, "down1", 1, 8}, down2{*this, "down2", 8, 16}, bottom{*this, "bottom", 16, 32};
  nn::ConvTranspose2d grow2{*this, "grow2", 32, 16, {.kernel = 2, .stride = 2}};
  Twice up2{*this, "up2", 32, 16};
  nn::ConvTranspose2d grow1{*this, "grow1", 16, 8, {.kernel = 2, .stride = 2}};
  Twice up1{*this, "up1", 16, 8};
  nn::Conv2d head{*this, "head", 8, kClasses, {.kernel = 1}};

  Tensor forward(const Tensor& x) override {  // [N,1,H,W] → [N,classes,H,W]
    const Tensor whole = down1(x);
    const Tensor half = down2(lathe::max_pool2d(whole, {.kernel = 2}));
    Tensor h = bottom(lathe::max_pool2d(half, {.kernel = 2}));
    h = up2(lathe::cat({half, grow2(h)}, 1));
    h = up1(lathe::cat({whole, grow1(h)}, 1));
    return head(h);
  }
};

struct Images {
  Tensor pixels;  // [N,1,32,32]
  Tensor labels;  // [N,32,32], i64: 0 background, 1 disc, 2 square
};

/// A disc and a square, the later one in front, of any brightness, under noise as strong.
Images draw(int64_t count, std::mt19937& random) {
  std::vector<float> pixels(static_cast<size_t>(count * kSize * kSize));
  std::vector<int64_t> labels(pixels.size());
  const auto between = [&](double low, double high) {
    return low + (high - low) * double(random()) / double(random.max());
  };
  for (int64_t n = 0; n < count; ++n) {
    const bool disc_first = random() % 2 == 0;
    for (const int64_t label : {disc_first ? 1 : 2, disc_first ? 2 : 1}) {
      const double x = between(6, 26), y = between(6, 26), r = between(3.5, 6),
                   light = between(0.6, 1.4);
      for (int64_t i = 0; i < kSize * kSize; ++i) {
        const double dx = std::abs(double(i % kSize) - x), dy = std::abs(double(i / kSize) - y);
        const bool inside = label == 1 ? dx * dx + dy * dy < r * r : std::max(dx, dy) < 0.9 * r;
        if (!inside) continue;
        const auto at = static_cast<size_t>(n * kSize * kSize + i);
        pixels[at] = static_cast<float>(light);
        labels[at] = label;
      }
    }
  }
  for (float& p : pixels) p += static_cast<float>(between(-0.5, 0.5));
  return {lathe::tensor(pixels).view({count, 1, kSize, kSize}),
          lathe::tensor(labels).view({count, kSize, kSize})};
}

/// Of each class: pixels that are it and were found / pixels that are it or were said to be.
std::vector<double> intersection_over_union(const Tensor& said, const Tensor& labels) {
  std::vector<double> out;
  for (int64_t c = 0; c < kClasses; ++c) {
    const Tensor a = said == c, b = labels == c;
    out.push_back((a & b).sum().item<double>() / (a | b).sum().item<double>());
  }
  return out;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 400;
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  lathe::manual_seed(1);
  std::mt19937 random(1);
  UNet net;
  net.to(device);
  optim::Adam opt(net.parameters(), {.lr = 1e-2});
  optim::CosineAnnealingLR schedule(opt, {.t_max = steps});

  const Tensor weight = lathe::tensor({0.3, 1.0, 1.0}).to(device);  // most pixels are background
  // Scores [N,C,H,W] against labels [N,H,W].
  lathe::train::Step train(net, opt, lathe::train::classification(net, {.weight = weight}));
  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    const Images batch = draw(16, random);
    const Tensor loss = train({batch.pixels.to(device), batch.labels.to(device)}).loss;
    schedule.step();
    if (step % 50 == 0 || step == steps) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      std::cout << seconds.count() << " s  step " << step << "  loss " << loss.item<float>()
                << std::endl;
    }
  }

  net.eval();  // batch norm: the running statistics from now on
  const lathe::NoGrad off;
  const Images test = draw(200, random);
  const Tensor said = net(test.pixels.to(device)).argmax(1).cpu();
  for (int64_t row = 0; row < kSize;
       row += 2) {  // the first image, what is there and what was said
    for (const Tensor& labels : {test.labels[0], said[0]}) {
      for (const int64_t label : labels[row].to_vector<int64_t>()) std::cout << ".o#"[label];
      std::cout << "   ";
    }
    std::cout << '\n';
  }
  const std::vector<double> iou = intersection_over_union(said, test.labels);
  std::cout << "intersection over union: background " << iou[0] << ", disc " << iou[1]
            << ", square " << iou[2] << '\n';
}
