// The sizes of one 2-d convolution, worked out and checked once, and shared by all of its passes.
#pragma once

#include <cstdint>

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct Conv2dOptions;

/// x [N,C,H,W] * w [K,C/groups,R,S] → y [N,K,P,Q].
struct Conv2dGeometry {
  int64_t N, C, H, W, K, R, S, P, Q;
  Pair stride, pad, dilation;
  int64_t groups;

  Shape x_shape() const { return {N, C, H, W}; }
  Shape w_shape() const { return {K, C / groups, R, S}; }
  Shape y_shape() const { return {N, K, P, Q}; }
  /// Multiplications per output element.
  int64_t taps() const { return C / groups * R * S; }
  /// No products to add up: every output is 0 (or the bias), every gradient is 0.
  bool is_trivial() const { return N * K * P * Q == 0 || C * H * W == 0; }
};

/// The sizes of a convolution of these shapes.
/// throws: ShapeError, ValueError, their messages starting with `op`.
Conv2dGeometry conv2d_geometry(const char* op, const Shape& x, const Shape& w,
                               const Conv2dOptions& opt);

/// The order in which a convolution of `x` writes its result: NHWC if x lies so in memory. Where
/// one channel or one pixel leaves both readings open, the strides of the dimensions of size 1
/// decide.
MemoryFormat conv2d_format(const Tensor& x);

}  // namespace lathe
