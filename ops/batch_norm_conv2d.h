// Batch norm, relu and convolution as one op. Here: the contract. batch_norm_conv2d.cpp: when it is
// one op and when three. conv/norm_relu_conv2d_cudnn.cpp: the op on a GPU, with its gradient.
#pragma once

#include "lathe/ops/batch_norm.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// The tensors of a batch norm beside its input; see batch_norm.h.
struct BatchNormTensors {
  Tensor weight, bias, running_mean, running_var;
};

/// conv2d(batch_norm_relu(x, …), w, opt). On a GPU this can be one op: its kernels normalise x on
/// the way into the convolution, and its backward pass goes back through relu and the sums of batch
/// norm in the kernel that computes the input gradient (cuDNN's fused patterns). The normalised
/// values are then never in memory, neither between the two nor until the backward pass.
///   x  [N,C,H,W]     w  [K,C,R,S]     →  [N,K,P,Q] as conv2d
/// It is one op only where all of this holds, and else the two ops above, with their bits:
///   - x is f16 in NHWC, and so is w as the op computes with it; C and K are multiples of 8;
///     filters are at most 5x5; weight and bias of the norm are there; no groups, no bias
///   - norm.training, and neither set_deterministic() nor inference
///   - cudnn::set_benchmark() is on, and the search found a fused kernel to be the fastest for
///     these sizes. The other passes are then chosen in the same way, each for itself.
/// The fused kernel also leaves the sums that a batch norm needs of its result, as conv2d's can
/// (autograd/companion.h, BatchNormCall::sums).
/// Fused, the normalised values are computed with scale and shift rounded to f16. Per value this
/// adds an error of at most |x| |scale| / 2048 + |shift| / 2048, where scale = weight / sqrt(var +
/// eps) and shift = bias - mean scale. So it needs |mean| to be not much larger than the standard
/// deviation; the relu of the backward pass is decided by values in f32.
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

namespace cuda {
/// True if the call can and should be one op. Any arguments.
bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call);
/// The op, where the above is true.
Tensor norm_relu_conv2d(const NormReluConv2dCall& call);
}  // namespace cuda

}  // namespace lathe
