// Convolution with the sum and the relu behind it, as one op. Here: the contract. fused_conv2d.cpp:
// checks, and when it is one op and when several. conv/conv2d_cpu.cpp: the pass that is one.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// What follows a convolution, in this order.
struct Conv2dEpilogue {
  Tensor residual = {};  // is added: of the result's shape, or undefined
  bool relu = false;
  // The filters are the same in many calls. Where nothing is recorded, the algorithm is then chosen
  // as if transforming them cost nothing. Results move by rounding.
  bool constant_filters = false;
};

/// z = conv2d(x, w, opt); z + residual if there is one; relu of that if asked for. NaN passes
/// through, as in relu.
///   x  [N,C,H,W] or [C,H,W]     w  [K,C/groups,R,S]     residual  [N,K,P,Q]     →  as conv2d
/// It is one op on a CPU in f32 where no gradient is recorded and no autocast is on: our own
/// Winograd then adds and cuts while it writes its tiles, and other convolutions are followed by
/// one pass in place. In all other cases it is the ops above. Either way it has their bits, unless
/// `constant_filters` chooses another algorithm.
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

}  // namespace lathe
