// The input gradient of a convolution behind a residual block, over cuDNN. Contracts:
// conv2d_block_end.h.
#include "lathe/ops/conv/conv2d_block_end.h"

#include <algorithm>
#include <utility>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/waiting.h"
#include "lathe/core/alignment.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_patterns_cudnn.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cuda {

using autograd::Needs;
using autograd::Saved;

BlockEnd::BlockEnd(const char* op, const BatchNormCall& call, const Tensor& residual,
                   Gradient gradient)
    : Node(op) {
  takes_parts = true;
  kept_.emplace(Kept{call, Saved(call.x), Saved(call.weight), Saved(call.bias),
                     alias(residual, residual.shape(), residual.strides(), residual.offset()),
                     residual.version(), std::move(gradient)});
  kept_->call.x = kept_->call.weight = kept_->call.bias = {};
}

BatchNormCall BlockEnd::call() const {
  BatchNormCall call = kept_->call;
  call.x = kept_->x.get();
  call.weight = kept_->weight.get();
  call.bias = kept_->bias.get();
  return call;
}

Tensor BlockEnd::residual() const {
  return kept_->residual.version() == kept_->residual_version ? kept_->residual : Tensor();
}

Tensors BlockEnd::run(const Tensors& dy, const Needs& need) {
  const Left left = std::exchange(left_, {});
  // With a gradient that came later the engine has made another tensor of it.
  const bool is_left = left.g.defined() && dy.size() == 1 && dy[0].handle() == left.g.handle();
  if (!is_left) return kept_->gradient(dy, need);
  const Tensor x = call().x;
  return {need[0] ? batch_norm_combine({left.g, x, left.g_factor, left.x_factor, left.constant})
                  : Tensor(),
          left.g, left.dweight, left.dbias};
}

void BlockEnd::release() noexcept {
  kept_.reset();
  left_ = {};
}

namespace {

constexpr MemoryFormat kOrder = kChannelsLast;

bool is_channel_vector(const Tensor& t) {
  return t.defined() && t.dtype() == kF32 && t.is_contiguous() && alignment_of(t.raw_data()) >= 16;
}

/// Whether cuDNN has engines for it.
bool suits_block_end(const Conv2dGeometry& g, const Tensor& w, const BatchNormCall& norm,
                     const Tensor& residual, const Tensor& waiting) {
  return g.groups == 1 && g.stride.rows == 1 && g.stride.cols == 1 && std::max(g.R, g.S) <= 5 &&
         !g.is_trivial() && g.K % 8 == 0 && conv2d_suits_fused(w) && conv2d_suits_fused(norm.x) &&
         conv2d_suits_fused(residual) && conv2d_suits_fused(waiting) &&
         is_channel_vector(norm.mean) && is_channel_vector(norm.invstd) &&
         is_channel_vector(norm.weight) && is_channel_vector(norm.bias);
}

/// What the two ops compute, for the search to time.
void two_ops(const Conv2dGeometry& g, BatchNormCall norm, const Conv2dOperands& of) {
  norm.x = fused_operand(of, kUidNormX);
  BatchNormGrads grads{true, true, true, {}, {}, {}, {}};
  grads.second_dy = conv2d_backward_input(g, of.y, of.w);
  grads.second_is_free = true;
  // In y's place something as large: only the time counts.
  batch_norm_backward(grads, norm, fused_operand(of, kUidResidualGrad),
                      fused_operand(of, kUidResidual));
}

void combine_left(const Conv2dOperands& of) {
  batch_norm_combine({of.x, fused_operand(of, kUidNormX), fused_operand(of, kUidGradFactor),
                      fused_operand(of, kUidXFactor), fused_operand(of, kUidConstant)});
}

}  // namespace

Tensor conv2d_backward_to_block_end(const Tensor& dy_in, const Tensor& w, const Shape& x_shape,
                                    const Conv2dOptions& opt) {
  autograd::Node* const node = autograd::current_node();
  if (node == nullptr || node->edges.empty() || grad_enabled() || !conv2d_may_fuse()) return {};
  auto* const end = dynamic_cast<BlockEnd*>(node->edges[0].node.get());
  const Tensor waiting = end == nullptr ? Tensor() : autograd::waiting_gradient(0);
  if (!waiting.defined()) return {};
  const Conv2dGeometry g = conv2d_geometry("conv2d", x_shape, w.shape(), opt);
  const BatchNormCall norm = end->call();
  const Tensor residual = end->residual();
  if (!suits_block_end(g, w, norm, residual, waiting)) return {};
  const DeviceScope on(dy_in.device(), "conv2d_backward_to_block_end");
  const Tensor dy = contiguous(dy_in, kOrder);
  if (!conv2d_suits_fused(dy)) return {};

  Conv2dOperands operands{.x = waiting, .w = w, .y = dy};  // of x only the alignment counts here
  ConvKey key = conv2d_key_of(ConvPass::kBackwardInput, g, kOrder, operands);
  key.fusion = ConvFusion::kAddReluNorm;
  key.x.alignment = 16;
  if (!conv2d_takes_fused(key, dy.device())) return {};
  const profile::OpRange range("conv2d_input_grad", {dy_in, w});
  profile::note_flops([&] { return g.flops(); });
  const auto room = [&] { return empty({g.C}, {.dtype = kF32, .device = dy.device()}); };
  const BlockEnd::Left left{
      empty_in(kOrder, g.x_shape(), kF16, dy.device()), room(), room(), room(), room(), room()};
  operands.x = left.g;
  operands.fused = {{kUidNormX, norm.x},
                    {kUidMean, norm.mean},
                    {kUidInvstd, norm.invstd},
                    {kUidWeight, norm.weight},
                    {kUidNormBias, norm.bias},
                    {kUidResidual, residual},
                    {kUidResidualGrad, waiting},
                    {kUidDweight, left.dweight, true},
                    {kUidDbias, left.dbias, true},
                    {kUidGradFactor, left.g_factor, true},
                    {kUidXFactor, left.x_factor, true},
                    {kUidConstant, left.constant, true}};
  Tensor split;
  const bool fused = conv2d_fuse_or_split(
      key, operands,
      {[&](const Conv2dOperands& of) { split = conv2d_backward_input(g, of.y, of.w); },
       [&](const Conv2dOperands& of) { two_ops(g, norm, of); },
       [&](const Conv2dOperands& of) { combine_left(of); }});
  profile::note_output(fused ? left.g : split);
  if (!fused) return split;
  autograd::take_waiting_gradient(0);
  end->leave(left);
  return left.g;
}

}  // namespace lathe::cuda
