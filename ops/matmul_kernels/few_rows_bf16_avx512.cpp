// Products of a few rows of bf16 with many. Contract: few_rows_bf16.h.
#ifndef __AVX512BF16__
#  error "needs the options of lathe_avx512() in ops/matmul_kernels/CMakeLists.txt"
#endif

#include "lathe/ops/matmul_kernels/few_rows_bf16.h"

#include <immintrin.h>

namespace lathe::few_rows {

namespace {

/// The sums of four vectors.
__m128 four_sums(const __m512* v) {
  __m128 four[4];
  for (int i = 0; i < 4; ++i) {
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
    four[i] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  }
  _MM_TRANSPOSE4_PS(four[0], four[1], four[2], four[3]);
  return _mm_add_ps(_mm_add_ps(four[0], four[1]), _mm_add_ps(four[2], four[3]));
}

__m512bh load(__mmask32 terms, const uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(terms, from));
}

/// The pair in all lanes.
__m512bh in_all_lanes(uint32_t pair) {
  __m512i all = _mm512_set1_epi32(static_cast<int>(pair));
  asm("" : "+v"(all));  // clang 16 crashes where it would broadcast bf16 from memory
  return reinterpret_cast<__m512bh>(all);
}

__mmask32 first_terms(int64_t n) {
  return static_cast<__mmask32>(n >= 32 ? ~0u : n <= 0 ? 0u : (1u << n) - 1);
}

/// Factors of rows 2i and 2i + 1, as a pair of bf16 numbers, and what rounding took from them.
struct FactorPairs {
  alignas(64) uint32_t near[kMostBf16Rows / 2], rest[kMostBf16Rows / 2];

  FactorPairs(const float* x, int64_t n) {
    for (int64_t j = 0; j < n; j += 16) {
      const auto lanes = static_cast<__mmask16>(n - j >= 16 ? 0xffff : (1u << (n - j)) - 1);
      const __m512 factors = _mm512_maskz_loadu_ps(lanes, x + j);
      const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(factors));
      const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16);
      const __m512 lost = _mm512_sub_ps(factors, _mm512_castsi512_ps(wide));
      _mm256_store_si256(reinterpret_cast<__m256i*>(near + j / 2), rounded);
      _mm256_store_si256(reinterpret_cast<__m256i*>(rest + j / 2),
                         reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(lost)));
    }
  }
};

/// Sums of 32 columns, in the order in which the numbers of two rows become pairs.
struct ColumnSums {
  __m512 near[2] = {}, rest[2] = {};

  void add(__m512bh factors, __m512bh lost, __m512i even, __m512i odd) {
    const auto left = reinterpret_cast<__m512bh>(_mm512_unpacklo_epi16(even, odd));
    const auto right = reinterpret_cast<__m512bh>(_mm512_unpackhi_epi16(even, odd));
    near[0] = _mm512_dpbf16_ps(near[0], factors, left);
    near[1] = _mm512_dpbf16_ps(near[1], factors, right);
    rest[0] = _mm512_dpbf16_ps(rest[0], lost, left);
    rest[1] = _mm512_dpbf16_ps(rest[1], lost, right);
  }
  void add_to(float* out, __mmask32 columns) const {
    const __m512 left = _mm512_add_ps(near[0], rest[0]), right = _mm512_add_ps(near[1], rest[1]);
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const auto low = static_cast<__mmask16>(columns), high = static_cast<__mmask16>(columns >> 16);
    const __m512 a = _mm512_maskz_loadu_ps(low, out), b = _mm512_maskz_loadu_ps(high, out + 16);
    _mm512_mask_storeu_ps(out, low, _mm512_add_ps(a, _mm512_permutex2var_ps(left, first, right)));
    _mm512_mask_storeu_ps(out + 16, high,
                          _mm512_add_ps(b, _mm512_permutex2var_ps(left, second, right)));
  }
};

}  // namespace

void add_bf16_rows_avx512(float* out, const float* x, const uint16_t* b, int64_t b_step, int64_t n,
                          int64_t E) {
  const FactorPairs pairs(x, n);
  for (int64_t e = 0; e < E; e += 64) {
    const __mmask32 columns[2] = {first_terms(E - e), first_terms(E - e - 32)};
    ColumnSums sums[2];
    for (int64_t j = 0; j < n; j += 2) {
      const __m512bh factors = in_all_lanes(pairs.near[j / 2]);
      const __m512bh lost = in_all_lanes(pairs.rest[j / 2]);
      const uint16_t* const row = b + j * b_step + e;
      for (int half = 0; half < 2; ++half) {
        const __mmask32 next = j + 1 < n ? columns[half] : 0;
        sums[half].add(factors, lost, _mm512_maskz_loadu_epi16(columns[half], row + 32 * half),
                       _mm512_maskz_loadu_epi16(next, row + (next == 0 ? 0 : b_step) + 32 * half));
      }
    }
    for (int half = 0; half < 2; ++half) sums[half].add_to(out + e + 32 * half, columns[half]);
  }
}

void multiply_bf16_rows_avx512(float* out, const uint16_t* const* x, int64_t rows,
                               const uint16_t* b, int64_t b_step, int64_t n, int64_t D) {
  for (int64_t j = 0; j < n; j += 4) {
    const int64_t count = n - j < 4 ? n - j : 4;
    const uint16_t* row[4];  // the last one again and again where b has no more
    for (int64_t i = 0; i < 4; ++i) row[i] = b + (i < count ? j + i : n - 1) * b_step;
    for (int64_t r = 0; r < rows; ++r) {
      __m512 sum[4] = {};
      for (int64_t d = 0; d < D; d += 32) {
        const __mmask32 terms = first_terms(D - d);
        const __m512bh factors = load(terms, x[r] + d);
        for (int i = 0; i < 4; ++i)
          sum[i] = _mm512_dpbf16_ps(sum[i], factors, load(terms, row[i] + d));
      }
      _mm_mask_storeu_ps(out + r * n + j, static_cast<__mmask8>((1u << count) - 1), four_sums(sum));
    }
  }
}

}  // namespace lathe::few_rows
