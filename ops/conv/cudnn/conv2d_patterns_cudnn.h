// What cuDNN fuses with a convolution, as operation graphs: the patterns for which it has kernels
// that are compiled already. For *_cudnn.cpp files only. No GPU is needed.
#pragma once

#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"

namespace lathe::cuda {

/// Tensors of fused graphs, beside x, w and y of Conv2dUid. Those per channel are [1,C,1,1], in the
/// order of the others. "Second" ones belong to the other norm of kAddReluTwoNorms.
enum FusedUid : int64_t {
  kUidScale = kUidsOfFusions,  // dtype of x, [C]: relu(scale * x + shift) is convolved
  kUidShift,
  kUidStatSum,        // f32 [K], written: the sums of y over each channel,
  kUidStatSquareSum,  // and of y * y
  kUidNormX,          // as x: what was normalised
  kUidMean,           // f32 [C], its statistics, weight and bias
  kUidInvstd,
  kUidWeight,
  kUidNormBias,
  kUidResidual,      // as x, after a forward pass as y: what was added before the relu
  kUidResidualGrad,  // as x: what other users of the relu's result give back
  kUidDweight,       // f32 [C], written: gradients of weight and bias,
  kUidDbias,
  kUidGradFactor,  // f32 [C], written: norm's dx = grad_factor * g + x_factor * norm_x + constant,
  kUidXFactor,     // where g stands in x's place: the gradient that the relu passed
  kUidConstant,
  kUidShiftOfSum,  // dtype of y, [K]: the bias of kBiasRelu and kAddBiasRelu
  kUidSecondNorm,  // the distance from a uid of a norm to that of the second norm
};

/// Adds the operations of the key's fusion and of its convolution, which has stride, padding and
/// dilation as `conv` says:
///   kStatistics       y = x * w; the sums of y
///   kNormRelu         the same with relu(scale * x + shift) in x's place, or the weight gradient
///                     for it
///   kReluNorm         g = input gradient where relu(norm(norm_x)) > 0; gradients of norm's weight
///                     and bias; the three numbers per channel that norm's dx needs
///   kAddReluNorm      the same with the gradient that comes from other users added first, and
///                     where relu(norm(norm_x) + residual) > 0
///   kAddReluTwoNorms  the same where the residual is a norm too; gradients of both norms
///   kBiasRelu         y = relu(x * w + bias), in f32 up to y
///   kAddBiasRelu      y = relu((x * w + residual) + bias): cuDNN has no such kernel for the sum in
///                     the other order
/// norm(x) = (x - mean) * invstd * weight + bias, in f32.
void add_fused(cudnn::OperationGraph& graph, const ConvKey& key,
               const cudnn::ConvolutionSpec& conv);

}  // namespace lathe::cuda
