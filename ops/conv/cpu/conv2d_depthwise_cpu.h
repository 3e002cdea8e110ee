// Depthwise convolution of f32 images in NHWC, without reorders: each channel has a filter of its
// own.
//
// Sixteen channels at a time are copied with their padding into a tile, which fits the first-level
// cache unless rows are wide: it holds at least what a row of outputs reads. The loops over it
// (depthwise_kernels_cpu.h) know no borders. Results have the same bits for any number of threads:
// the filters' gradient is summed in parts that depend on the sizes alone. A part adds up the sums
// of its tiles, so no f32 sum is of more terms than a tile has pixels or a part has tiles.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

/// True for what the passes below compute: as many groups as channels of x and of y, strides up to
/// 8, filters that reach over 32 rows and columns at most. Any padding.
bool depthwise_takes(const Conv2dGeometry& g);

/// x, y and their gradients: f32, NHWC. w and dw: f32, dense. bias: dense or undefined. No size is
/// trivial.
void depthwise_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias);
void depthwise_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                              const Tensor& w);
void depthwise_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                               const Tensor& x);

}  // namespace lathe::cpu
