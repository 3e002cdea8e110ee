// Batch norm, relu and convolution as one op on a CPU. Contract: ops/batch_norm_conv2d.h.
//
// x is normalised tile by tile as Winograd reads it, forward and in the weight gradient. What the
// input gradient leaves goes back through relu and the norm in its own memory.
#include <optional>
#include <utility>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/autograd/sole_owner.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cpu {

using autograd::Needs;
using autograd::Saved;

namespace {

/// The norm of a call as the convolution applies it.
struct AppliedNorm {
  explicit AppliedNorm(const BatchNormCall& norm) : call(norm), scale(size_t(norm.x.dim(1))) {
    const float *const weight = call.weight.data<float>(), *const invstd =
                                                               call.invstd.data<float>();
    for (size_t i = 0; i < scale.size(); ++i) scale[i] = weight[i] * invstd[i];
  }
  operator PixelNorm() const {
    return {call.mean.data<float>(), scale.data(), call.bias.data<float>()};
  }

  const BatchNormCall& call;
  std::vector<float> scale;
};

/// The tile where our own Winograd computes the convolution of images as fuses() lets them pass.
std::optional<WinogradTile> tile_of(const Conv2dGeometry& g) {
  if (g.is_trivial()) return {};
  return winograd_tile(conv2d_choice({ConvPass::kForward, g, kChannelsLast, kF32}).engine);
}

/// The filters in a dense order, which Winograd reads. It keeps what it makes of filters that need
/// no gradient, so these are not detached.
Tensor dense(const Tensor& w) { return contiguous(w, memory_format_of(w)); }

Tensor convolve(const Conv2dGeometry& g, WinogradTile tile, const BatchNormCall& norm,
                const Tensor& w, Tensor& moments) {
  const profile::OpRange range("conv2d", {norm.x, w});
  profile::note_flops([&] { return g.flops(); });
  Tensor y = empty_in(kChannelsLast, g.y_shape(), kF32, kCPU);
  winograd_forward(g, tile, y, norm.x, dense(w), {}, {}, &moments, AppliedNorm(norm));
  profile::note_output(y);
  return y;
}

Tensor backward_weight(const Conv2dGeometry& g, WinogradTile tile, const BatchNormCall& norm,
                       const Tensor& w, const Conv2dOptions& conv, const Tensor& dy) {
  const MemoryFormat format = memory_format_of(w);
  if (conv_exact()) {  // since the forward pass
    return conv2d_weight_grad(dy, batch_norm_forward(norm, {}), w.shape(), conv, format);
  }
  const profile::OpRange range("conv2d_weight_grad", {dy, norm.x});
  profile::note_flops([&] { return g.flops(); });
  Tensor dw = empty_in(format, g.w_shape(), kF32, kCPU);
  winograd_backward_weight(g, tile, dw, dy, norm.x, AppliedNorm(norm));
  profile::note_output(dw);
  return dw;
}

}  // namespace

bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call) {
  const auto& [x, w, tensors, norm, conv] = call;
  // A watcher is to see the two ops. A norm that takes no part in gradients keeps nothing.
  if (!grad_enabled() || profile::watched() || amp::autocast_enabled(kCPU) ||
      !norm_relu_conv2d_suits(call)) {
    return false;
  }
  const bool records =
      x.requires_grad() || tensors.weight.requires_grad() || tensors.bias.requires_grad();
  if (!records || x.dtype() != kF32 || w.dtype() != kF32 || !x.is_contiguous(kChannelsLast)) {
    return false;
  }
  const Conv2dGeometry g = conv2d_geometry("conv2d", x.shape(), w.shape(), conv);
  return tile_of(g).has_value();
}

Tensor norm_relu_conv2d(const NormReluConv2dCall& in) {
  const auto& [weight, bias, running_mean, running_var] = in.tensors;
  autograd::check_in_place("batch_norm_relu_conv2d", running_mean);
  autograd::check_in_place("batch_norm_relu_conv2d", running_var);
  const Conv2dGeometry g = conv2d_geometry("conv2d", in.x.shape(), in.w.shape(), in.conv);
  BatchNormCall norm{BatchNormForm::kRelu, in.x, {}, {}, weight, bias, true};
  norm.sums = autograd::companion_of(in.x);
  const BatchNormStats batch = batch_norm_stats(norm, in.norm.eps);
  norm.mean = batch.mean;
  norm.invstd = batch.invstd;
  Tensor moments;
  // Another thread may have changed the settings since norm_relu_conv2d_fuses.
  const WinogradTile tile = tile_of(g).value_or(WinogradTile::k4);
  Tensor y = convolve(g, tile, norm, in.w, moments);
  // After all memory is there: a call that fails leaves them unchanged.
  batch_norm_update_({running_mean, running_var, in.norm.momentum, in.norm.num_batches}, batch,
                     in.x.numel() / in.x.dim(1));
  autograd::record(
      "batch_norm_relu_conv2d", y, {in.x, weight, bias, in.w},
      [g, tile, x = Saved(in.x), weight = Saved(weight), bias = Saved(bias), w = Saved(in.w),
       mean = norm.mean, invstd = norm.invstd, eps = in.norm.eps,
       conv = in.conv](const Tensor& dy_in, const Needs& need) {
        const BatchNormCall call{BatchNormForm::kRelu, x.get(),    mean, invstd,
                                 weight.get(),         bias.get(), true};
        if (grad_enabled())
          return norm_relu_conv2d_gradients(call, eps, w.get(), conv, dy_in, need);
        Tensors grads(4);  // undefined if not needed
        if (need[3]) {
          const Tensor dy = contiguous(dy_in, kChannelsLast);
          grads[3] = backward_weight(g, tile, call, w.get(), conv, dy);
        }
        if (need[0] || need[1] || need[2]) {
          BatchNormGrads norm_grads{need[0], false, need[1] || need[2], {}, {}, {}, {}};
          const Tensor dz =
              contiguous(conv2d_input_grad(dy_in, w.get(), call.x.shape(), conv), kChannelsLast);
          norm_grads.dy_is_free = autograd::is_sole_owner(dz);
          batch_norm_backward(norm_grads, call, dz, {});
          grads[0] = norm_grads.dx;
          grads[1] = norm_grads.dweight;
          grads[2] = norm_grads.dbias;
        }
        return grads;
      });
  if (moments.defined()) autograd::set_companion(y, moments);
  running_mean.bump_version();
  running_var.bump_version();
  if (in.norm.num_batches.defined()) in.norm.num_batches.bump_version();
  return y;
}

}  // namespace lathe::cpu
