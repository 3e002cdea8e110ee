// Convolution with bias, residual and relu as one kernel of cuDNN, for inference. Contract:
// ops/fused_conv2d.h. What the search compares it with: the convolution with its bias, the sum and
// the relu.
#include "lathe/core/alignment.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_patterns_cudnn.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/fused_conv2d.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cuda {

namespace {

constexpr MemoryFormat kNhwc = kChannelsLast;

/// Whether there may be a kernel for it: what the search need not be asked for.
bool suits_one_kernel(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                      const Conv2dEpilogue& then) {
  const auto has_the_dtype = [&](const Tensor& t) {
    return t.dtype() == kF16 && t.device() == x.device();
  };
  return conv2d_may_fuse() && then.relu && conv2d_suits_fused(x) && w.ndim() == 4 &&
         has_the_dtype(w) && w.dim(0) % 8 == 0 && w.dim(1) == x.dim(1) && opt.groups == 1 &&
         opt.bias.defined() && has_the_dtype(opt.bias) && opt.bias.shape() == Shape{w.dim(0)} &&
         (!then.residual.defined() || has_the_dtype(then.residual));
}

}  // namespace

Tensor fused_conv2d(const Tensor& x, const Tensor& w_in, const Conv2dOptions& opt,
                    const Conv2dEpilogue& then) {
  if (!suits_one_kernel(x, w_in, opt, then)) return {};
  const Conv2dGeometry g = conv2d_geometry("fused_conv2d", x.shape(), w_in.shape(), opt);
  const bool adds = then.residual.defined();
  if (g.is_trivial() || (adds && then.residual.shape() != g.y_shape())) return {};
  const Tensor w = contiguous(w_in, kNhwc);
  const Tensor residual = adds ? contiguous(then.residual, kNhwc) : Tensor();
  const Tensor dense_bias = contiguous(opt.bias);
  const Tensor bias = alignment_of(dense_bias.raw_data()) >= 16 ? dense_bias : dense_bias.clone();
  if (!conv2d_suits_fused(w) || (adds && !conv2d_suits_fused(residual))) return {};

  Conv2dOperands operands{.x = x, .w = w, .y = w};  // of y only the alignment counts here
  ConvKey key = conv2d_key_of(ConvPass::kForward, g, kNhwc, operands);
  key.fusion = adds ? ConvFusion::kAddBiasRelu : ConvFusion::kBiasRelu;
  key.y.alignment = 16;
  if (!conv2d_takes_fused(key, x.device())) return {};
  operands.y = empty_in(kNhwc, g.y_shape(), kF16, x.device());
  operands.fused = {{kUidShiftOfSum, bias}};
  if (adds) operands.fused.push_back({kUidResidual, residual});
  Tensor split;
  const auto apart = [&](const Conv2dOperands& of) {
    Tensor y = conv2d_forward(g, of.x, of.w, bias);
    if (adds) add_(y, fused_operand(of, kUidResidual));
    return relu_(y);
  };
  const bool fused = conv2d_fuse_or_split(
      key, operands,
      {[&](const Conv2dOperands& of) { split = apart(of); },
       [&](const Conv2dOperands& of) { apart(of); }, [](const Conv2dOperands&) {}});
  profile::note_flops([&] { return g.flops(); });
  return fused ? operands.y : split;
}

}  // namespace lathe::cuda
