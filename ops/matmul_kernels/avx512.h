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

}  // namespace lathe::cpu
