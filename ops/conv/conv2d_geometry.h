// The sizes of one 2-d convolution, computed and checked once and shared by all of its passes.
#pragma once

#include <cstdint>

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/memory_format.h"

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
  /// Floating-point operations of each pass, a multiplication with addition as 2.
  double flops() const {
    // Also called before memory for y is asked for, so N * K * P * Q may not fit an int64.
    return 2.0 * static_cast<double>(N) * static_cast<double>(K) * static_cast<double>(P) *
           static_cast<double>(Q) * static_cast<double>(taps());
  }
  /// True if there are no products to add up: every output is 0 (or the bias), every gradient 0.
  bool is_trivial() const { return N * K * P * Q == 0 || C * H * W == 0; }
};

// The parts of the check that every convolution shares; conv1d calls them under its own name.
// throws: ShapeError, ValueError, DTypeError, DeviceError; the messages start with `op`.

/// Options, channels and groups of x [N,C,…] and w [K,C/groups,…].
void check_conv(const char* op, const Shape& x, const Shape& w, Pair stride, Pair pad,
                Pair dilation, int64_t groups);
/// bias must be undefined, or [channels] and of w's dtype and device.
void check_conv_bias(const char* op, const Tensor& bias, const Tensor& w, int64_t channels);
/// floor((in + 2*pad - dilation*(kernel-1) - 1) / stride) + 1 along one axis, at least 1; `axis` is
/// "rows" or "columns".
int64_t conv_output_size(const char* op, const char* axis, int64_t in, int64_t kernel,
                         int64_t stride, int64_t pad, int64_t dilation);

/// The sizes of a convolution of these shapes.
/// throws: ShapeError, ValueError; the messages start with `op`.
Conv2dGeometry conv2d_geometry(const char* op, const Shape& x, const Shape& w,
                               const Conv2dOptions& opt);

}  // namespace lathe
