// What kernels in AVX-512 are made of. For *_amx.cpp and *_avx512.cpp files.
#pragma once

#include <immintrin.h>

namespace lathe::cpu {

/// rows[i][j] and rows[j][i] change places.
static inline void transpose_16x16(__m512i* rows) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // rows[4 * k + j] has, in its quarter q, elements 4 * k to 4 * k + 3 of column 4 * q + j.
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);           // quarters 0, 2 of k = 0, 1
    t[4 + j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);       // quarters 1, 3
    t[8 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);  // of k = 2, 3
    t[12 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
  }
  for (int j = 0; j < 4; ++j) {
    rows[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
    rows[4 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0x88);
    rows[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
    rows[12 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0xdd);
  }
}

/// 2^x by a polynomial for x - floor(x) in [0, 1), which is 1 at 0 and 2 at 1. Of all such ones of
/// its degree it has the least relative error: 4e-6 for degree 4, where bf16 has 4e-3, and 1e-7 for
/// degree 5.
template <int degree>
static inline __m512 exp2_of(__m512 x) {
  constexpr int kFromFloor = 0x09;  // x - floor(x), without exceptions
  constexpr float kFour[] = {0.013555747f, 0.05203237f, 0.24137977f, 0.69303215f, 1.0f};
  constexpr float kFive[] = {0.0018793187f, 0.008990995f, 0.055818677f,
                             0.24015927f,   0.6931517f,   1.0f};
  static_assert(degree == 4 || degree == 5);
  const float* const factors = degree == 4 ? kFour : kFive;
  const __m512 f = _mm512_reduce_ps(x, kFromFloor);
  __m512 p = _mm512_set1_ps(factors[0]);
  for (int i = 1; i <= degree; ++i) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(factors[i]));
  return _mm512_scalef_ps(p, x);  // p * 2^floor(x), for infinite x too
}

}  // namespace lathe::cpu
