// exp_row() of attention_rows.h for processors with AVX-512. Nothing else is here, because all
// that exp_row_avx512.cpp includes is compiled for them.
#pragma once

#include <cstdint>

namespace lathe::attention_rows {

/// s = exp(scale * s - from)   →  the sum. Relative error: 1e-7 + 1e-7 * |scale * s - from|.
float exp_row_avx512(float* s, float scale, float from, int64_t n);

}  // namespace lathe::attention_rows
