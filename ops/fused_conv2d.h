// Convolution with the sum and the relu that follow it, as one op. fused_conv2d.cpp: checks, and
// when it is one op and when several. conv/cpu/conv2d_cpu.cpp: the fused pass on a CPU;
// conv/cudnn/fused_conv2d_cudnn.cpp: on a GPU.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// What follows a convolution, in this order.
struct Conv2dEpilogue {
  Tensor residual = {};  // added to the result, whose shape it has; or undefined
  bool relu = false;
  // true: the filters stay the same in many calls. If nothing is recorded, the engine is then
  // chosen as if transforming them were free. Results may differ by rounding.
  bool constant_filters = false;
};

/// conv2d(x, w, opt), plus the residual if there is one, then relu if then.relu is set. relu keeps
/// NaN.
///   x  [N,C,H,W] or [C,H,W]     w  [K,C/groups,R,S]     residual  [N,K,P,Q]     →  as conv2d
/// The result has the bits of the separate ops conv2d, add and relu, with two exceptions:
///   - With then.constant_filters another engine may run, with other roundings.
///   - One kernel of cuDNN may compute relu((conv2d + residual) + bias) in f32 and round to f16
///     once. The separate ops round each result.
/// This kernel of cuDNN runs on a GPU if no gradient is recorded and all of this holds:
///   - the convolution computes in f16, x is NHWC, C and K are multiples of 8; there are no groups
///   - there is a bias, and then.relu is set; the residual, if there is one, is f16
///   - cudnn::set_benchmark() is on without set_deterministic(), and the search found such a kernel
///     to be the fastest for these sizes
/// On a CPU fused_conv2d is one op for f32, if no gradient is recorded and no autocast is on.
/// dtypes: as conv2d; residual has x's dtype, or in an Autocast scope any floating dtype.
/// grad: x, w, bias, residual, twice differentiable.   amp: half.
/// throws: as conv2d; ShapeError, DTypeError or DeviceError for a residual that does not fit.
/// ref: the FusedConv of ONNX Runtime.
LATHE_API Tensor fused_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                              const Conv2dEpilogue& then);

namespace cpu {
/// All tensors are f32, also the epilogue's. The residual may have any order in memory.
Tensor fused_conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                            const Tensor& bias, const Conv2dEpilogue& then);
}  // namespace cpu

namespace cuda {
/// The call as one kernel; an undefined tensor if the separate ops should run instead, also if the
/// sizes do not fit together. x, w and the bias have the dtype in which the convolution computes.
/// Nothing is recorded.
Tensor fused_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                    const Conv2dEpilogue& then);
}  // namespace cuda

}  // namespace lathe
