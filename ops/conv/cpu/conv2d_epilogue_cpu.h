// What follows a convolution that could not do it itself, in one pass. Included by conv2d_cpu.cpp
// and conv2d_epilogue_cpu.cpp only.
#pragma once

#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

/// Adds the residual to y and cuts y at 0, in place. y: dense; the residual: dense in the same
/// order. f32, or an epilogue without work.
void apply_epilogue(const Tensor& y, const Conv2dEpilogue& then);

}  // namespace lathe::cpu
