// 1x1 convolutions as matrix products, f32 and NHWC, without reorders of images.
//
// The pixels of NHWC images are the rows of a matrix, so
//   y [pixels, K] = x [pixels, C] w',   dx = dy w,   dw [K, C] = dy' x.
// The filters are packed once per call into panels of 64 columns; of the weight gradient's operands
// a block at a time. The products are those of Winograd (winograd_kernels.h). With a stride only
// every other pixel of x is read, and the others have no gradient.
//
// Results have the same bits for any number of threads: no sum is divided among them but that of
// the weight gradient, whose parts depend on the sizes alone.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

/// True for what the passes below compute: 1x1, no padding, one group. Any channels and stride.
bool pointwise_takes(const Conv2dGeometry& g);

/// x, y and their gradients: f32, NHWC. w and dw: f32, dense. bias: dense or undefined. No size is
/// trivial. *moments becomes mean and variance of y's channels, f32 [2,K] (channel_moments_cpu.h),
/// if it is not null.
void pointwise_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, Tensor* moments = nullptr);
void pointwise_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                              const Tensor& w);
void pointwise_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                               const Tensor& x);

}  // namespace lathe::cpu
