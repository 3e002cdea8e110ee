// A CPU's engines at work: the passes of a convolution by the engine that conv2d_choice_cpu.h
// chooses. conv2d_cpu.cpp brings dtypes and layouts into the form that they take.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

/// The passes by an engine that takes these sizes. Tensors have the dtype of the choice; x, y and
/// their gradients are all row-major or all NHWC; w and dw are row-major or channels-last; bias is
/// dense or undefined. Nothing is checked; no size is trivial. *moments as
/// conv2d_forward_with_moments leaves them, if it is not null.
void conv2d_forward_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& y,
                       const Tensor& x, const Tensor& w, const Tensor& bias,
                       const Conv2dEpilogue& then, Tensor* moments);
void conv2d_backward_input_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dx,
                              const Tensor& dy, const Tensor& w);
void conv2d_backward_weight_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dw,
                               const Tensor& dy, const Tensor& x);

}  // namespace lathe::cpu
