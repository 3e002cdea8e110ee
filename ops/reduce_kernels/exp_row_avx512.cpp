// Exponentials of a row in AVX-512. Contract: exp_row.h.
#ifndef __AVX512DQ__
#  error "exp_row_avx512.cpp needs the options of lathe_avx512() in cmake/LatheFlags.cmake"
#endif

#include "lathe/ops/avx512_math.h"
#include "lathe/ops/reduce_kernels/exp_row.h"

namespace lathe::cpu {

float exp_row_avx512(float* out, const float* x, float scale, float from, int64_t n) {
  const __m512 factor = avx512::all(scale), base = avx512::all(from);
  const auto weight = [&](__m512 v) { return avx512::exp_of(_mm512_fmsub_ps(v, factor, base)); };
  __m512 sum[4] = {};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int k = 0; k < 4; ++k) {
      const __m512 w = weight(_mm512_loadu_ps(x + i + 16 * k));
      _mm512_storeu_ps(out + i + 16 * k, w);
      sum[k] = _mm512_add_ps(sum[k], w);
    }
  }
  for (; i < n; i += 16) {
    const __mmask16 lanes = static_cast<__mmask16>(n - i >= 16 ? 0xffff : (1u << (n - i)) - 1);
    const __m512 w = weight(_mm512_maskz_loadu_ps(lanes, x + i));
    _mm512_mask_storeu_ps(out + i, lanes, w);
    sum[0] = _mm512_mask_add_ps(sum[0], lanes, sum[0], w);
  }
  return _mm512_reduce_add_ps(
      _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

}  // namespace lathe::cpu
