// Convolution with the sum and the relu behind it, as one op. Here: the contract. fused_conv2d.cpp:
// checks, and when it is one op and when several. conv/cpu/conv2d_cpu.cpp: the pass that is one;
// conv/cudnn/fused_conv2d_cudnn.cpp: the same on a GPU.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// What follows a convolution, in this order.
struct Conv2dEpilogue {
  Tensor residual = {};  // is added: of the result's shape, or undefined
  bool relu = false;
  // The filters are the same in many calls. Where nothing is recorded, the engine is then chosen
  // as if transforming them cost nothing. Results move by rounding.
  bool constant_filters = false;
};

/// z = conv2d(x, w, opt); z + residual if there is one; relu of that if asked for. NaN passes
/// through, as in relu.
///   x  [N,C,H,W] or [C,H,W]     w  [K,C/groups,R,S]     residual  [N,K,P,Q]     →  as conv2d
/// It is one op on a CPU in f32 where no gradient is recorded and no autocast is on: our own
/// Winograd then adds and cuts while it writes its tiles, and other convolutions are followed by
/// one pass in place. Either way it has the bits of the ops above, unless `constant_filters`
/// chooses another engine.
/// On a GPU it is one kernel of cuDNN where no gradient is recorded and all of this holds:
///   - the convolution computes in f16, x is in NHWC, C and K are multiples of 8; no groups
///   - there is a bias, and relu is asked for; the residual, if there is one, is f16
///   - cudnn::set_benchmark() is on without set_deterministic(), and the search found such a kernel
///     to be the fastest for these sizes
/// It is rounded to f16 once, as relu((conv2d + residual) + bias) in f32; the ops one by one round
/// each of their results. In all other cases it is the ops above, with their bits.
/// dtypes: as conv2d; residual has that of x, in an Autocast scope any floating one, as add() has.
/// grad: x, w, bias, residual (twice).   amp: half.
/// throws: as conv2d; ShapeError, DTypeError or DeviceError for a residual that does not fit.
/// ref: the FusedConv of ONNX Runtime.
LATHE_API Tensor fused_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                              const Conv2dEpilogue& then);

namespace cpu {
/// f32, all of the epilogue's tensors too; the residual in any order.
Tensor fused_conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                            const Tensor& bias, const Conv2dEpilogue& then);
}  // namespace cpu

namespace cuda {
/// The call as one kernel; undefined where it should be the ops one by one. x, w and the bias in
/// the dtype in which the convolution computes; nothing is recorded. Any sizes: what does not fit
/// together is undefined, too.
Tensor fused_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                    const Conv2dEpilogue& then);
}  // namespace cuda

}  // namespace lathe
