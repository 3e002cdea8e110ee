// Batch norm, relu and convolution as one op on a GPU, over the fused patterns of cuDNN
// (conv2d_fuse_or_split_cudnn.h). Contract: ops/batch_norm_conv2d.h.
//
// Forward: a kernel of our own reads x for its statistics; another turns them into scale and shift;
// cuDNN convolves relu(scale * x + shift). Backward: the weight gradient reads x in the same way,
// and the input gradient's kernel goes on through the relu to batch norm's sums; then a kernel of
// our own computes dx.
#include <algorithm>
#include <utility>

#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/core/alignment.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_patterns_cudnn.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cuda {

using autograd::Needs;
using autograd::Saved;

namespace {

constexpr MemoryFormat kFormat = kChannelsLast;

/// A call with what its forward pass computes for its backward pass.
struct Fused {
  Conv2dGeometry g;
  BatchNormCall norm;  // with x and the statistics
  BatchNormCoefficients coefficients;
  Tensor w;
  Conv2dOptions conv;
};

ConvKey key_of(ConvPass pass, ConvFusion fusion, const Fused& call,
               const Conv2dOperands& operands) {
  ConvKey key = conv2d_key_of(pass, call.g, kFormat, operands);
  key.fusion = fusion;
  return key;
}

Tensor channel_room(int64_t channels, const Tensor& like) {
  return empty({channels}, {.dtype = kF32, .device = like.device()});
}

/// relu(norm(x)) in memory, of this x.
Tensor normalized(const Fused& call, const Tensor& x) {
  BatchNormCall norm = call.norm;
  norm.x = x;
  return cuda::batch_norm_forward(norm, {});
}

/// What cuDNN reads in place of that.
std::vector<FusedOperand> coefficients_of(const Fused& call) {
  return {{kUidScale, call.coefficients.scale}, {kUidShift, call.coefficients.shift}};
}

/// Room for the sums that a kernel leaves of y, as BatchNormCall has them.
Tensor sums_room(const Conv2dGeometry& g, Device device) {
  return empty({2, g.K}, {.dtype = kF32, .device = device});
}

void add_sums(Conv2dOperands& operands, const Tensor& sums) {
  const int64_t channels = sums.dim(1);
  operands.fused.push_back({kUidStatSum, alias(sums, {channels}, {1}, 0), true});
  operands.fused.push_back({kUidStatSquareSum, alias(sums, {channels}, {1}, channels), true});
}

/// The pass over y that its sums save.
void read_statistics(const Tensor& y) {
  BatchNormCall norm{BatchNormForm::kPlain, y, {}, {}, {}, {}, true};
  cuda::batch_norm_coefficients(norm, 0, {});
}

/// The statistics, which move the running ones, and y. Memory is there before they move: what the
/// split engine would take is held until then, so that a call that fails has not changed them.
Tensor forward(Fused& call, double eps, const BatchNormRunning& running, Tensor& sums) {
  const Tensor y = empty_in(kFormat, call.g.y_shape(), kF16, call.w.device());
  const Tensor room = sums_room(call.g, y.device());
  {
    const Tensor z_room = empty_like(call.norm.x), y_room = empty_like(y),
                 sums_of_y_room = empty_like(room);
    call.coefficients = cuda::batch_norm_coefficients(call.norm, eps, running);
  }
  Conv2dOperands operands{.x = call.norm.x, .w = call.w, .y = y, .fused = coefficients_of(call)};
  add_sums(operands, room);
  Tensor split;
  const auto apart = [&](const Conv2dOperands& of, Tensor& left) {
    return conv2d_forward_with_sums(call.g, normalized(call, of.x), of.w, left);
  };
  const ConvKey key = key_of(ConvPass::kForward, ConvFusion::kNormRelu, call, operands);
  if (!conv2d_fuse_or_split(key, operands,
                            {[&](const Conv2dOperands& of) { split = apart(of, sums); },
                             [&](const Conv2dOperands& of) {
                               Tensor left;
                               const Tensor made = apart(of, left);
                               if (!left.defined()) read_statistics(made);
                             },
                             [](const Conv2dOperands&) {}}))
    return split;
  sums = room;
  return y;
}

Tensor backward_weight(const Fused& call, const Tensor& dy) {
  const Tensor dw = empty_in(kFormat, call.g.w_shape(), kF16, dy.device());
  const Conv2dOperands operands{.x = call.norm.x, .w = dw, .y = dy, .fused = coefficients_of(call)};
  Tensor split;
  const auto apart = [&](const Conv2dOperands& of) {
    return conv2d_backward_weight(call.g, of.y, normalized(call, of.x), kFormat);
  };
  const bool fused = conv2d_fuse_or_split(
      key_of(ConvPass::kBackwardWeight, ConvFusion::kNormRelu, call, operands), operands,
      {[&](const Conv2dOperands& of) { split = apart(of); },
       [&](const Conv2dOperands& of) { apart(of); }, [](const Conv2dOperands&) {}});
  return fused ? dw : split;
}

/// Gradients of {x, weight, bias} of the norm.
Tensors backward_norm(const Fused& call, const Tensor& dy) {
  const Tensor& x = call.norm.x;
  const auto room = [&] { return channel_room(call.g.C, x); };
  const Tensor g = empty_in(kFormat, x.shape(), kF16, x.device());
  const Tensor dweight = room(), dbias = room(), g_factor = room(), x_factor = room(),
               constant = room();
  const Conv2dOperands operands{.x = g,
                                .w = call.w,
                                .y = dy,
                                .fused = {{kUidNormX, x},
                                          {kUidMean, call.norm.mean},
                                          {kUidInvstd, call.norm.invstd},
                                          {kUidWeight, call.norm.weight},
                                          {kUidNormBias, call.norm.bias},
                                          {kUidDweight, dweight, true},
                                          {kUidDbias, dbias, true},
                                          {kUidGradFactor, g_factor, true},
                                          {kUidXFactor, x_factor, true},
                                          {kUidConstant, constant, true}}};
  BatchNormGrads split;
  const auto apart = [&](const Conv2dOperands& of) {
    BatchNormGrads grads{true, false, true, {}, {}, {}, {}};
    BatchNormCall norm = call.norm;
    norm.x = fused_operand(of, kUidNormX);
    cuda::batch_norm_backward(grads, norm, conv2d_backward_input(call.g, of.y, of.w), {});
    return grads;
  };
  const auto combined = [](const Conv2dOperands& of) {
    return cuda::batch_norm_combine(
        {of.x, fused_operand(of, kUidNormX), fused_operand(of, kUidGradFactor),
         fused_operand(of, kUidXFactor), fused_operand(of, kUidConstant)});
  };
  const bool fused = conv2d_fuse_or_split(
      key_of(ConvPass::kBackwardInput, ConvFusion::kReluNorm, call, operands), operands,
      {[&](const Conv2dOperands& of) { split = apart(of); },
       [&](const Conv2dOperands& of) { apart(of); },
       [&](const Conv2dOperands& of) { combined(of); }});
  if (!fused) return {split.dx, split.dweight, split.dbias};
  return {combined(operands), dweight, dbias};
}

/// Whether one op takes less time than two in the passes of a step together. A weight gradient that
/// is split within one op computes relu(norm(x)) again; two ops have it in memory.
/// Until all passes are known it is one op, so that its backward pass searches for them. Where
/// times are missing, the forward pass decides.
bool saves_time(const Conv2dGeometry& g, const Conv2dOperands& like, bool needs_x, bool needs_w) {
  const Device device = like.x.device();
  const auto key_in = [&](ConvPass pass, ConvFusion fusion) {
    ConvKey key = conv2d_key_of(pass, g, kFormat, like);
    key.fusion = fusion;
    key.x.alignment = key.w.alignment = key.y.alignment = 16;
    return key;
  };
  const std::pair<bool, ConvKey> passes[] = {
      {true, key_in(ConvPass::kForward, ConvFusion::kNormRelu)},
      {needs_x, key_in(ConvPass::kBackwardInput, ConvFusion::kReluNorm)},
      {needs_w, key_in(ConvPass::kBackwardWeight, ConvFusion::kNormRelu)}};
  const bool forward_alone = conv2d_takes_fused(passes[0].second, device);
  if (!needs_x && !needs_w) return forward_alone;
  double saved_ms = 0;
  for (const auto& [needed, key] : passes) {
    if (!needed) continue;
    if (!conv_search().find(key)) return forward_alone || !is_capturing(current_stream(device));
    const auto ms = conv2d_measured(key);
    if (!ms || !ms->split) return forward_alone;
    double two_ops = *ms->split;
    if (key.pass == ConvPass::kBackwardWeight) {
      const auto plain = conv2d_measured(key_in(key.pass, ConvFusion::kNone));
      if (!plain) return forward_alone;
      two_ops = plain->chosen;
    }
    saved_ms += two_ops - ms->chosen;
  }
  return saved_ms > 0;
}

}  // namespace

bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call) {
  const auto& [x, w, tensors, norm, conv] = call;
  const auto is_aligned = [](const Tensor& t) { return alignment_of(t.raw_data()) >= 16; };
  const bool suits = conv2d_may_fuse() && !inference_enabled() && conv2d_suits_fused(x) &&
                     conv2d_suits_fused(w) && norm_relu_conv2d_suits(call) && w.dim(2) <= 5 &&
                     w.dim(3) <= 5 && w.dim(0) % 8 == 0 && is_aligned(tensors.weight) &&
                     is_aligned(tensors.bias) && is_aligned(tensors.running_mean) &&
                     is_aligned(tensors.running_var);
  if (!suits) return false;
  const Conv2dGeometry g = conv2d_geometry("conv2d", x.shape(), w.shape(), conv);
  if (g.is_trivial()) return false;
  return saves_time(g, {.x = x, .w = w, .y = w},  // only the addresses' alignment counts
                    grad_enabled() && (x.requires_grad() || tensors.weight.requires_grad() ||
                                       tensors.bias.requires_grad()),
                    grad_enabled() && w.requires_grad());
}

Tensor norm_relu_conv2d(const NormReluConv2dCall& in) {
  const auto& [weight, bias, running_mean, running_var] = in.tensors;
  autograd::check_in_place("batch_norm_relu_conv2d", running_mean);
  autograd::check_in_place("batch_norm_relu_conv2d", running_var);
  Fused call{conv2d_geometry("batch_norm_relu_conv2d", in.x.shape(), in.w.shape(), in.conv),
             {BatchNormForm::kRelu, in.x, {}, {}, weight, bias, true},
             {},
             in.w,
             in.conv};
  profile::note_flops([&] { return call.g.flops(); });
  call.norm.sums = autograd::companion_of(in.x);
  Tensor sums;
  Tensor y = forward(call, in.norm.eps,
                     {running_mean, running_var, in.norm.momentum, in.norm.num_batches}, sums);
  call.norm.sums = {};
  call.norm.x = call.norm.weight = call.norm.bias = call.w = {};  // these are saved with versions
  autograd::record("batch_norm_relu_conv2d", y, {in.x, weight, bias, in.w},
                   [x = Saved(in.x), weight = Saved(weight), bias = Saved(bias), w = Saved(in.w),
                    call, eps = in.norm.eps](const Tensor& dy_in, const Needs& need) {
                     Fused saved = call;
                     saved.norm.x = x.get();
                     saved.norm.weight = weight.get();
                     saved.norm.bias = bias.get();
                     saved.w = w.get();
                     if (grad_enabled()) {
                       return norm_relu_conv2d_gradients(saved.norm, eps, saved.w, saved.conv,
                                                         dy_in, need);
                     }
                     const Tensor dy = contiguous(dy_in, kFormat);
                     Tensors grads(4);  // undefined if not needed
                     if (need[0] || need[1] || need[2]) {
                       Tensors norm = backward_norm(saved, dy);
                       std::move(norm.begin(), norm.end(), grads.begin());
                     }
                     if (need[3]) grads[3] = backward_weight(saved, dy);
                     return grads;
                   });
  if (sums.defined()) autograd::set_companion(y, sums);
  running_mean.bump_version();
  running_var.bump_version();
  if (in.norm.num_batches.defined()) in.norm.num_batches.bump_version();
  return y;
}

Tensor conv2d_forward_with_sums(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                Tensor& sums) {
  const auto plain = [&] { return conv2d_forward(g, x, w, {}); };
  if (!conv2d_may_fuse() || !conv2d_suits_fused(x) || !conv2d_suits_fused(w) || g.groups != 1 ||
      g.K % 8 != 0 || std::max(g.R, g.S) > 5 || g.is_trivial())
    return plain();
  Conv2dOperands operands{.x = x, .w = w, .y = w};  // of y only the alignment counts here
  ConvKey key = conv2d_key_of(ConvPass::kForward, g, kFormat, operands);
  key.fusion = ConvFusion::kStatistics;
  key.y.alignment = 16;
  if (!conv2d_takes_fused(key, x.device())) return plain();
  operands.y = empty_in(kFormat, g.y_shape(), kF16, x.device());
  const Tensor room = sums_room(g, x.device());
  add_sums(operands, room);
  Tensor split;
  const bool fused = conv2d_fuse_or_split(
      key, operands,
      {[&](const Conv2dOperands&) { split = plain(); },
       [&](const Conv2dOperands& of) { read_statistics(conv2d_forward(g, of.x, of.w, {})); },
       [](const Conv2dOperands&) {}});
  if (!fused) return split;
  sums = room;
  return operands.y;
}

}  // namespace lathe::cuda
