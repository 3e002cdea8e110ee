// Convolution by im2col: the windows of images are copied into a matrix, and products of matrices
// follow. It takes all sizes.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

/// f32 and f64, all tensors in any dense order. Nothing is checked; no size is trivial.
/// The order of summation depends on the sizes alone, not on the number of threads.
void im2col_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias);
void im2col_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                           const Tensor& w);
void im2col_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                            const Tensor& x);

}  // namespace lathe::cpu
