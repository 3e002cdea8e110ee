// The steps of lstm in bf16, with products in tile registers. Included by recurrent_lstm_cpu.cpp
// and tests.
#pragma once

#include "lathe/ops/matmul_kernels/amx_kernels.h"
#include "lathe/ops/recurrent.h"

namespace lathe::cpu {

/// As lstm_steps(). s.states and s.cells hold the first states; the rest of s is written. bias is
/// f32. For a product h is rounded to bf16, which is also what s.states keeps; cells and gates are
/// f32. Subnormal numbers are taken for 0. The number of threads changes no bit.
void lstm_steps_bf16(const AmxKernels& kernels, const RecurrentSteps& s, const Tensor& from_x,
                     const Tensor& w_h, const Tensor& bias);
/// As lstm_step_gradients(). Of `grads`, c holds the gradient of the last c, and h zeros.
void lstm_step_gradients_bf16(const AmxKernels& kernels, const RecurrentGradients& grads,
                              const RecurrentSteps& s, const Tensor& w_h, const Tensor& dy);

}  // namespace lathe::cpu
