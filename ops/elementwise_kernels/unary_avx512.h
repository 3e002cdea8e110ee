// Rows of f32 in AVX-512, for processors that have it: ops of ops/unary.h. Nothing else is here,
// because all that unary_avx512.cpp includes is compiled for them. Errors: ops/avx512_math.h.
// Results may take the place of the operands.
#pragma once

#include <cstdint>

namespace lathe::cpu {

/// out[i] = the op of x[i]
using UnaryRow = void(float* out, const float* x, int64_t n);
UnaryRow exp_avx512, log_avx512, sqrt_avx512, tanh_avx512, sigmoid_avx512, silu_avx512, gelu_avx512,
    gelu_tanh_avx512;
/// The same for |x[i]| <= wide_forms::kLargestAngle.
UnaryRow sin_avx512, cos_avx512;

}  // namespace lathe::cpu
