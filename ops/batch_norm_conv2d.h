// Batch norm, relu and convolution as one op. Here: the contract. batch_norm_conv2d.cpp: when it is
// one op and when two. conv/cpu/batch_norm_conv2d_cpu.cpp and
// conv/cudnn/batch_norm_conv2d_cudnn.cpp: the op on a CPU and on a GPU, with its gradient.
#pragma once

#include "lathe/autograd/node.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// The tensors of a batch norm beside its input; see batch_norm.h.
struct BatchNormTensors {
  Tensor weight, bias, running_mean, running_var;
};

/// conv2d(batch_norm_relu(x, …), w, opt). This can be one op, which normalises x on the way into
/// the convolution. The normalised values are then never in memory, neither between the two nor
/// until the backward pass, whose weight gradient normalises x once more.
///   x  [N,C,H,W]     w  [K,C,R,S]     →  [N,K,P,Q] as conv2d
/// It can be one op in training, without groups and without a bias of the convolution, where
/// weight, bias and running statistics of the norm are there, f32 and dense.
/// On a CPU it is one op where gradients of x, weight or bias are recorded, x and w are f32, x is
/// in NHWC, and our own Winograd computes the convolution (conv/cpu/conv2d_winograd_cpu.h); not
/// under Autocast or a watcher. It has the bits of the two ops above, but for gradients that have
/// gradients: those compute the normalised values anew, and may differ in their last bits.
/// On a GPU its backward pass also goes back through relu and the sums of batch norm in the kernel
/// that computes the input gradient (cuDNN's fused patterns). There it is one op only where all of
/// this holds, and else the two ops above, with their bits:
///   - x is f16 in NHWC, and so is w as the op computes with it; C and K are multiples of 8;
///     filters are at most 5x5; weight and bias of the norm are there; no groups, no bias
///   - norm.training, and neither set_deterministic() nor inference
///   - cudnn::set_benchmark() is on, and the search found a fused kernel to be the fastest for
///     these sizes. The other passes are then chosen in the same way, each for itself.
/// The fused op also leaves the sums that a batch norm needs of its result, as conv2d's can
/// (autograd/companion.h, BatchNormCall::sums).
/// Fused on a GPU, the normalised values are computed with scale and shift rounded to f16. Per
/// value this adds an error of at most |x| |scale| / 2048 + |shift| / 2048, where
/// scale = weight / sqrt(var + eps) and shift = bias - mean scale. So it needs |mean| to be not
/// much larger than the standard deviation; the relu of the backward pass is decided by values in
/// f32. It passes the gradient where they are 0, so also in a channel whose weight and bias are 0.
/// dtypes: as batch_norm_relu and conv2d.   grad: x, weight, bias, w (twice).   amp: half for w.
/// throws: as batch_norm_relu and conv2d.
LATHE_API Tensor batch_norm_relu_conv2d(const Tensor& x, const BatchNormTensors& norm_tensors,
                                        const Tensor& w, const BatchNormOptions& norm = {},
                                        const Conv2dOptions& conv = {});

/// A call of the op. x is dense in NHWC; w is in x's dtype.
struct NormReluConv2dCall {
  Tensor x, w;
  BatchNormTensors tensors;
  BatchNormOptions norm;
  Conv2dOptions conv;
};

/// What both devices ask for: a training step of images of 4 dimensions with more than one value
/// per channel; the norm's four tensors f32 and dense on x's device; one group, no bias of the
/// convolution; nothing that the two ops would refuse. Any arguments.
bool norm_relu_conv2d_suits(const NormReluConv2dCall& call);

/// Those gradients of {x, weight, bias, w} that are needed, made of ops, so that they have
/// gradients themselves.
Tensors norm_relu_conv2d_gradients(const BatchNormCall& norm, double eps, const Tensor& w,
                                   const Conv2dOptions& conv, const Tensor& dy,
                                   const autograd::Needs& need);

namespace cpu {
/// A norm as it is applied to f32: relu((x - mean) * scale + bias) for each channel, in this order
/// of operations. Dense arrays; all null: none.
struct PixelNorm {
  const float *mean = nullptr, *scale = nullptr, *bias = nullptr;
};
/// Applies it to NHWC pixels that need not be neighbours, each given by its first channel: pixel i
/// goes to y + i * channels, and pixels[i] becomes that address. Pixels at `outside` stay as they
/// are.
void batch_norm_relu_pixels(float* y, const float** pixels, int64_t count, const float* outside,
                            int64_t channels, const PixelNorm& norm);

/// True if the call can and should be one op. Any arguments.
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);
/// The op, where the above is true.
Tensor norm_relu_conv2d(const NormReluConv2dCall& call);
}  // namespace cpu
namespace cuda {
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);
Tensor norm_relu_conv2d(const NormReluConv2dCall& call);
}  // namespace cuda

}  // namespace lathe
