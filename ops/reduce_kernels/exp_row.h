// exp_row() of reduce_fold_cpu.h for processors with AVX-512. Nothing else is here, because all
// that exp_row_avx512.cpp includes is compiled for them.
#pragma once

#include <cstdint>

namespace lathe::cpu {

/// out[i] = exp(scale * x[i] - from) to 1 ulp of that difference's; out may be x   →  the sum
float exp_row_avx512(float* out, const float* x, float scale, float from, int64_t n);

}  // namespace lathe::cpu
