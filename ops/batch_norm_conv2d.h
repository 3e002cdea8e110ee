// Batch norm, relu and convolution as one op. batch_norm_conv2d.cpp: when it is one op and when
// two. conv/cpu/batch_norm_conv2d_cpu.cpp and conv/cudnn/batch_norm_conv2d_cudnn.cpp: the op on a
// CPU and on a GPU, with its gradient.
#pragma once

#include "lathe/autograd/node.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// The parameters and running statistics of a batch norm; see batch_norm.h.
struct BatchNormTensors {
  Tensor weight, bias, running_mean, running_var;
};

/// conv2d(batch_norm_relu(x, …), w, conv), as one op where that is possible. The fused op
/// normalises x while the convolution reads it, and again in the backward pass. The fused op does
/// not store the normalised values.
///   x  [N,C,H,W]     w  [K,C,R,S]     →  [N,K,P,Q] as conv2d
/// The fused op runs only in training. The norm's weight, bias and running statistics must be
/// defined, f32 and dense; the convolution must have one group and no bias. Otherwise
/// batch_norm_relu and conv2d run one after the other, and the result has their bits.
/// On a CPU the two layers run as one op if all of this holds:
///   - a gradient of x, weight or bias is recorded
///   - x and w are f32, x is NHWC, and our own Winograd computes the convolution
///     (conv/cpu/conv2d_choice_cpu.h)
///   - neither Autocast nor a debug scope that watches ops (core/debug/) is active
/// On a CPU the fused op gives the bits of the two ops. Only second derivatives may differ in their
/// last bits.
/// On a GPU the two layers run as one op if all of this holds:
///   - x and w are f16 in NHWC (w after autocast); C and K are multiples of 8; filters are at most
///     5x5
///   - neither set_deterministic() nor inference mode is on
///   - cudnn::set_benchmark() is on, and the search found a fused kernel to be the fastest for
///     these sizes; the search also chooses for each gradient (of x and of w) whether to fuse
/// A fused GPU kernel rounds scale = weight / sqrt(var + eps) and shift = bias - mean scale to f16.
/// This adds an error of at most |x| |scale| / 2048 + |shift| / 2048 per value. |mean| should
/// therefore not be much larger than the standard deviation. In the backward pass, relu's mask
/// comes from normalised values in f32. Where such a value is exactly 0, the gradient passes.
/// (Every value of a channel is 0 if the channel's weight and bias are 0.)
/// dtypes: as batch_norm_relu and conv2d.   grad: x, weight, bias, w, twice differentiable.
/// amp: half for w.
/// throws: as batch_norm_relu and conv2d.
LATHE_API Tensor batch_norm_relu_conv2d(const Tensor& x, const BatchNormTensors& norm_tensors,
                                        const Tensor& w, const BatchNormOptions& norm = {},
                                        const Conv2dOptions& conv = {});

/// The arguments of a call. x is dense in NHWC; w has x's dtype.
struct NormReluConv2dCall {
  Tensor x, w;
  BatchNormTensors tensors;
  BatchNormOptions norm;
  Conv2dOptions conv;
};

/// True if the call meets the conditions that CPU and GPU share. Takes any arguments. The
/// conditions:
///   - It is a training step, and x has 4 dimensions and more than one value per channel.
///   - The norm's four tensors are f32 and dense on x's device.
///   - The convolution has one group and no bias.
///   - The two separate ops would not refuse the arguments.
bool norm_relu_conv2d_suits(const NormReluConv2dCall& call);

/// True if batch_norm_relu_conv2d() is one op for the call. The call's w has the dtype that
/// autocast gives it.
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);

/// The gradients of {x, weight, bias, w} that are needed. They are made of ops, so they can be
/// differentiated again.
Tensors norm_relu_conv2d_gradients(const BatchNormCall& norm, double eps, const Tensor& w,
                                   const Conv2dOptions& conv, const Tensor& dy,
                                   const autograd::Needs& need);

namespace cpu {
/// A norm applied to f32: relu((x - mean) * scale + bias) for each channel, computed in this order.
/// The arrays are dense. If all are null, there is no norm.
struct PixelNorm {
  const float *mean = nullptr, *scale = nullptr, *bias = nullptr;
};
/// Applies `norm` to NHWC pixels that need not be neighbours. pixels[i] is the address of pixel i's
/// first channel; the result goes to y + i * channels, and pixels[i] becomes that address. Pixels
/// whose address is `outside` stay as they are.
void batch_norm_relu_pixels(float* y, const float** pixels, int64_t count, const float* outside,
                            int64_t channels, const PixelNorm& norm);

/// True if the call can and should be one op on this device. Takes any arguments.
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);
/// The fused op. norm_relu_conv2d_fuses(call) must be true.
Tensor norm_relu_conv2d(const NormReluConv2dCall& call);
}  // namespace cpu
namespace cuda {
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);
Tensor norm_relu_conv2d(const NormReluConv2dCall& call);
}  // namespace cuda

}  // namespace lathe
