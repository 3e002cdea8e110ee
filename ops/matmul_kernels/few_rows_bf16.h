// multiply_rows() and add_rows() of few_rows.h for bf16 on processors with AVX512-BF16. Nothing
// else is here, because all that few_rows_bf16_avx512.cpp includes is compiled for them.
#pragma once

#include <cstdint>

namespace lathe::few_rows {

/// out[r * n + j] = x[r] · b[j] for `rows` rows x[r] and n rows b[j], `b_step` apart, of D terms
/// each. Numbers are bf16, as bits. Sums are in f32; subnormal numbers count as 0.
void multiply_bf16_rows_avx512(float* out, const uint16_t* const* x, int64_t rows,
                               const uint16_t* b, int64_t b_step, int64_t n, int64_t D);

/// out[e] += x[0] b[0][e] + x[1] b[1][e] + … for n <= kMostBf16Rows rows b[j] of E columns. x
/// counts as the sum of two bf16 numbers, to 2^-17 of it.
inline constexpr int64_t kMostBf16Rows = 256;
void add_bf16_rows_avx512(float* out, const float* x, const uint16_t* b, int64_t b_step, int64_t n,
                          int64_t E);

}  // namespace lathe::few_rows
