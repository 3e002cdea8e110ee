// Chapter 6: what f16 cannot hold, and why the loss is scaled.
#include <lathe/lathe.h>

#include <cmath>
#include <cstdio>

using lathe::Tensor;

/// A number after a stop in f16, as a power of two where it is one.
static void through_half(const char* what, double value) {
  const double kept = lathe::tensor(value, lathe::kF64).to(lathe::kF16).item<double>();
  std::printf("%-34s %.9g -> %.9g\n", what, value, kept);
}

int main() {
  through_half("the largest number", 65504);
  through_half("a little more", 65520);
  through_half("whole numbers stop at", 2049);
  through_half("the smallest normal number, 2^-14", 0x1p-14);
  through_half("the smallest number, 2^-24", 0x1p-24);
  through_half("half of it", 0x1p-25);
  through_half("a weight plus its update", 1 + 0x1p-12);

  // loss = w · 2^-26: its gradient is 2^-26, which f16 does not have. Scaled by 2^16 it is 2^-10.
  const Tensor w = lathe::ones({}, lathe::kF32);
  w.requires_grad_();
  const auto gradient_through_half = [&](double scale) {
    w.set_grad({});
    const Tensor loss = w.to(lathe::kF16).to(lathe::kF32) * 0x1p-26;  // the cast's gradient is f16
    (loss * scale).backward();
    return w.grad().item<double>() / scale;
  };
  std::printf("\ngradient 2^-26 without a scale: %g\n", gradient_through_half(1));
  std::printf("with scale 65536: 2^%g\n\n", std::log2(gradient_through_half(65536)));

  // The scaler looks for the largest scale that does not overflow, by trying.
  lathe::optim::SGD opt({w}, {.lr = 0x1p-4});
  lathe::optim::GradScaler scaler({.init_scale = 65536, .growth_interval = 3});
  for (int step = 0; step < 7; ++step) {
    opt.zero_grad();
    const Tensor loss = w.to(lathe::kF16).to(lathe::kF32) * 2;  // gradient 2, scaled 131072
    const double before = w.item<double>(), scale = scaler.get_scale();
    scaler.scale(loss).backward();
    const double scaled = w.grad().item<double>();
    scaler.step(opt);
    scaler.update();
    std::printf("step %d  scale %6.0f  scaled gradient %6g  w %.3f -> %.3f%s\n", step, scale,
                scaled, before, w.item<double>(), before == w.item<double>() ? "  skipped" : "");
  }

  const lathe::Autocast half(lathe::kCPU, lathe::kBF16);
  const Tensor a = lathe::ones({2, 2}), b = lathe::matmul(a, a), c = lathe::softmax(b, 1);
  std::printf("\nunder Autocast: matmul %s, softmax %s\n", lathe::concat(b.dtype()).c_str(),
              lathe::concat(c.dtype()).c_str());
}
