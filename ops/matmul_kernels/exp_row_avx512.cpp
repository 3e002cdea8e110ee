// Rows of scores in AVX-512. Contract: exp_row.h.
#ifndef __AVX512DQ__
#  error "exp_row_avx512.cpp needs the options that ops/matmul_kernels/CMakeLists.txt sets"
#endif

#include "lathe/ops/matmul_kernels/avx512.h"
#include "lathe/ops/matmul_kernels/exp_row.h"

namespace lathe::attention_rows {

float exp_row_avx512(float* s, float scale, float from, int64_t n) {
  constexpr float kLog2E = 1.44269504f;
  const __m512 factor = _mm512_set1_ps(scale), base = _mm512_set1_ps(from);
  const __m512 log2_e = _mm512_set1_ps(kLog2E);
  const auto weight = [&](__m512 score) {
    return cpu::exp2_of<5>(_mm512_mul_ps(_mm512_fmsub_ps(score, factor, base), log2_e));
  };
  __m512 sum[4] = {};
  int64_t j = 0;
  for (; j + 64 <= n; j += 64) {
    for (int i = 0; i < 4; ++i) {
      const __m512 w = weight(_mm512_loadu_ps(s + j + 16 * i));
      _mm512_storeu_ps(s + j + 16 * i, w);
      sum[i] = _mm512_add_ps(sum[i], w);
    }
  }
  for (; j < n; j += 16) {
    const auto mask = static_cast<__mmask16>(n - j >= 16 ? 0xffff : (1 << (n - j)) - 1);
    const __m512 w = weight(_mm512_maskz_loadu_ps(mask, s + j));
    _mm512_mask_storeu_ps(s + j, mask, w);
    sum[0] = _mm512_mask_add_ps(sum[0], mask, sum[0], w);
  }
  return _mm512_reduce_add_ps(
      _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

}  // namespace lathe::attention_rows
