// Squared distances as a product in AVX-512: a tile's sums stay in 24 registers. Contract:
// distance_avx512.h.
#ifndef __AVX512DQ__
#  error "distance_avx512.cpp needs the options that ops/row_kernels/CMakeLists.txt sets"
#endif

#include "lathe/ops/row_kernels/distance_avx512.h"

#include <immintrin.h>

namespace lathe::cpu {

void squares_by_product_avx512(float* squares, int64_t stride, uint64_t* near, const float* a,
                               const float* a_norms, const float* band, const float* band_norms,
                               int64_t d) {
  constexpr int kLanes = 16, kVectors = kDistanceBand / kLanes;
  __m512 products[kDistanceTile][kVectors] = {};
  for (int64_t k = 0; k < d; ++k) {
    __m512 column[kVectors];
    for (int v = 0; v < kVectors; ++v)
      column[v] = _mm512_loadu_ps(band + k * kDistanceBand + v * kLanes);
    for (int i = 0; i < kDistanceTile; ++i) {
      const __m512 value = _mm512_set1_ps(a[i * d + k]);
      for (int v = 0; v < kVectors; ++v) {
        products[i][v] = _mm512_fmadd_ps(value, column[v], products[i][v]);
      }
    }
  }
  const __m512 two = _mm512_set1_ps(2.0f), quarter = _mm512_set1_ps(0.25f);
  const __m512 infinity = _mm512_set1_ps(__builtin_inff());
#pragma GCC unroll 6  // or the sums would go through memory
  for (int i = 0; i < kDistanceTile; ++i) {
    near[i] = 0;
    for (int v = 0; v < kVectors; ++v) {
      const __m512 norms =
          _mm512_add_ps(_mm512_set1_ps(a_norms[i]), _mm512_loadu_ps(band_norms + v * kLanes));
      const __m512 square = _mm512_fnmadd_ps(two, products[i][v], norms);
      const __mmask16 is_far =
          _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(norms, infinity, _CMP_LT_OQ), square,
                                  _mm512_mul_ps(norms, quarter), _CMP_GE_OQ);
      near[i] |= static_cast<uint64_t>(static_cast<uint16_t>(~is_far)) << (v * kLanes);
      _mm512_storeu_ps(squares + i * stride + v * kLanes, square);
    }
  }
}

namespace {

/// The sum of the squares of load(k, mask), for k = 0, 16, … < d; outside the mask that is 0.
template <class F>
[[gnu::always_inline]] inline float sum_of_squares(int64_t d, F load) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t k = 0; k < d; k += 16) {
    const auto mask = static_cast<__mmask16>(d - k >= 16 ? 0xffff : (1 << (d - k)) - 1);
    const __m512 value = load(k, mask);
    sum = _mm512_fmadd_ps(value, value, sum);
  }
  return _mm512_reduce_add_ps(sum);
}

}  // namespace

float square_apart_avx512(const float* a, const float* b, int64_t d) {
  return sum_of_squares(d, [&](int64_t k, __mmask16 mask) {
    return _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, a + k), _mm512_maskz_loadu_ps(mask, b + k));
  });
}
float square_norm_avx512(const float* a, int64_t d) {
  return sum_of_squares(
      d, [&](int64_t k, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, a + k); });
}

}  // namespace lathe::cpu
