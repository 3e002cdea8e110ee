// Transposed 2-d convolution (conv_transpose2d.cpp).
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct ConvTranspose2dOptions {
  Tensor bias = {};     // [K] or undefined
  Pair stride = 1;      // {rows, columns}; one number sets both
  Pair pad = 0;         // rows and columns dropped from each side of the result
  Pair output_pad = 0;  // rows and columns added at the end; less than stride or dilation
  Pair dilation = 1;    // distance between filter taps
  int64_t groups = 1;   // C and K are split into this many independent groups
};

/// Transposed convolution, as in the gradient of conv2d: each x[n,c,h,w] adds
/// x[n,c,h,w] * w[c,k,r,s] to y[n, k, h*stride - pad + r*dilation, w*stride - pad + s*dilation].
///   x  [N,C,H,W] or [C,H,W]     w  [C,K/groups,R,S]     bias  [K]
///   →  [N,K,P,Q],    P = (H-1)*stride - 2*pad + dilation*(R-1) + output_pad + 1,  Q likewise;
///      NHWC if x is NHWC; without N if x has no N
/// dtypes: f16, bf16, f32, f64.   grad: x, w, bias, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, DeviceError; ValueError for options that conv2d refuses, or an
/// output_pad that is negative or not below the larger of stride and dilation.
/// ref: Dumoulin and Visin 2016 (arXiv:1603.07285), chapter 4.
LATHE_API Tensor conv_transpose2d(const Tensor& x, const Tensor& w,
                                  const ConvTranspose2dOptions& opt = {});

}  // namespace lathe
