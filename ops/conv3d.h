// 3-d convolution, computed by conv2d with the planes of a window as channels (conv3d.cpp).
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/core/triple.h"

namespace lathe {

struct Conv3dOptions {
  Tensor bias = {};  // [K] or undefined
  Triple stride = 1;
  Triple pad = 0;       // zeros added on each side
  Triple dilation = 1;  // distance between filter taps
  int64_t groups = 1;   // C and K are split into this many independent groups
};

/// 3-d cross-correlation: conv2d with a third dimension before the rows.
///   x  [N,C,D,H,W] or [C,D,H,W]     w  [K,C/groups,T,R,S]     bias  [K]
///   →  [N,K,E,P,Q] or [K,E,P,Q],    E = (D + 2*pad - dilation*(T-1) - 1) / stride + 1, P and Q
///      likewise
/// The op copies x up to T times while it runs, and keeps these copies for the gradient.
/// dtypes: as conv2d.   grad: as conv2d.   amp: half.   throws: as conv2d.
LATHE_API Tensor conv3d(const Tensor& x, const Tensor& w, const Conv3dOptions& opt = {});

}  // namespace lathe
