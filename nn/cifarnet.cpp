// CifarNet: layers and initial values.
#include "lathe/nn/cifarnet.h"

#include <algorithm>

#include "lathe/autograd/autocast.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/init.h"
#include "lathe/nn/pool2d.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

constexpr int64_t kSmallest = 9;  // 8x8 after `whiten`, which three max-pools make one pixel
constexpr int64_t kWhitenSide = 2;

void add_conv(Sequential& layers, int64_t in, int64_t out) {
  const Conv2d& conv =
      layers.add<Conv2d>(in, out, Conv2dOptions{.kernel = 3, .pad = 1, .bias = false});
  init::dirac_(conv.weight.detach().narrow(0, 0, std::min(in, out)));
}

void add_norm(Sequential& layers, int64_t channels) {
  const BatchNorm2d& norm =
      layers.add<BatchNorm2d>(channels, BatchNormOptions{.eps = 1e-12, .momentum = 0.4});
  norm.weight.requires_grad_(false);
}

/// x + body(x).
struct Shortcut final : Module {
  Sequential body{*this, "body"};
  Tensor forward(const Tensor& x) override { return body(x) + x; }
};

void add_group(Sequential& layers, int64_t in, int64_t out, bool residual) {
  add_conv(layers, in, out);
  layers.add<MaxPool2d>(2);
  add_norm(layers, out);
  layers.add<GELU>();
  Sequential& rest = residual ? layers.add<Shortcut>().body : layers;
  add_conv(rest, out, out);
  add_norm(rest, out);
  if (residual) {
    rest.add<GELU>();
    add_conv(rest, out, out);
    add_norm(rest, out);
  }
  layers.add<GELU>();
}

/// whiten(x). Under autocast to bf16 it is computed in f32 and then rounded. Filters of components
/// with a small variance subtract pixels that are nearly equal. With factors of 8 bits up to 7 % of
/// such a component would be noise (CIFAR-10).
Tensor whitened(Conv2d& whiten, const Tensor& x) {
  const Device device = x.device();
  const bool is_bf16 = amp::autocast_enabled(device) && amp::autocast_dtype(device) == kBF16;
  if (!is_bf16 || whiten.weight.dtype() != kF32) return whiten(x);
  const Autocast off(device, kBF16, false);
  return whiten(x.to(kF32)).to(kBF16);
}

}  // namespace

CifarNet::CifarNet(const CifarNetOptions& options)
    : whiten(*this, "whiten", options.in_channels,
             2 * options.in_channels * kWhitenSide * kWhitenSide, {.kernel = kWhitenSide}),
      head(*this, "head", options.widths.back(), options.classes, {.bias = false, .init = false}) {
  whiten.weight.requires_grad_(false);
  groups.add<GELU>();
  int64_t in = whiten.weight.dim(0);
  for (const int64_t out : options.widths) {
    add_group(groups, in, out, options.residual);
    in = out;
  }
  init::normal_(head.weight, 0, 1.0 / static_cast<double>(in));
}

Tensor CifarNet::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) >= kSmallest && x.dim(3) >= kSmallest,
              "CifarNet: images need at least ", kSmallest, " x ", kSmallest, " pixels (x: ", x,
              ")");
  const Tensor y = groups(whitened(whiten, x));
  return head(flatten(max_pool2d(y, {.kernel = {y.dim(2), y.dim(3)}}), 1));
}

void CifarNet::whiten_images(const Tensor& images) { init::whitening_(whiten.weight, images); }

CifarNet cifarnet(const CifarNetOptions& options) { return CifarNet(options); }

CifarNet cifarnet_wide(const CifarNetOptions& options) {
  return CifarNet({.classes = options.classes,
                   .in_channels = options.in_channels,
                   .widths = {128, 384, 512},
                   .residual = true});
}

}  // namespace lathe::nn
