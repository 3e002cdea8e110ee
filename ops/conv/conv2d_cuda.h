// Convolution on the GPU by our own kernels (conv2d_cuda.cu) instead of cuDNN's: for f64, for what
// cuDNN has no engine for, where cudnn::enabled() is false, and for tests.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cuda {

// As conv2d_forward and its two adjoints in conv2d.h.
Tensor portable_conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                               const Tensor& bias);
Tensor portable_conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w);
Tensor portable_conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                                       MemoryFormat w_format = kContiguous);

}  // namespace lathe::cuda
