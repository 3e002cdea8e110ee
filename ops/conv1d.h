// 1-d convolution, computed by conv2d as images of one row (conv1d.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct Conv1dOptions {
  Tensor bias = {};  // [K] or undefined
  int64_t stride = 1;
  int64_t pad = 0;       // zeros added on each side
  int64_t dilation = 1;  // distance between filter taps
  int64_t groups = 1;    // C and K are split into this many independent groups
};

/// 1-d cross-correlation: y[n,k,q] = bias[k] + sum over c,s of x[n, c, q*stride - pad + s*dilation]
/// * w[k,c,s].
///   x  [N,C,W] or [C,W]     w  [K,C/groups,S]     bias  [K]
///   →  [N,K,Q] or [K,Q],    Q = (W + 2*pad - dilation*(S-1) - 1) / stride + 1
/// dtypes: as conv2d.   grad: as conv2d.   amp: half.   throws: as conv2d.
LATHE_API Tensor conv1d(const Tensor& x, const Tensor& w, const Conv1dOptions& opt = {});

}  // namespace lathe
