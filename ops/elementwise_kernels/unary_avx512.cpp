// Rows of f32 in AVX-512. Contract: unary_avx512.h.
#ifndef __AVX512DQ__
#  error "unary_avx512.cpp needs the options of lathe_avx512() in cmake/LatheFlags.cmake"
#endif

#include "lathe/ops/elementwise_kernels/unary_avx512.h"

#include "lathe/ops/avx512_math.h"

namespace lathe::cpu {

namespace {

__mmask16 first_lanes(int64_t n) {
  return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << n) - 1);
}

/// The functions take so long that the processor does not look far enough ahead to begin reading
/// the next page.
void fetch_ahead(const float* out, const float* x) {
  constexpr int64_t kAhead = 512;
  _mm_prefetch(reinterpret_cast<const char*>(x + kAhead), _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(out + kAhead), _MM_HINT_T0);
}

/// Two vectors at a time: one computes while the other waits.
template <class F>
void for_row(float* out, const float* x, int64_t n, F f) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    fetch_ahead(out + i, x + i);
    fetch_ahead(out + i + 16, x + i + 16);
    const __m512 a = f(_mm512_loadu_ps(x + i)), b = f(_mm512_loadu_ps(x + i + 16));
    _mm512_storeu_ps(out + i, a);
    _mm512_storeu_ps(out + i + 16, b);
  }
  for (; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    // Where there is no number stands 1, of which no function is special.
    _mm512_mask_storeu_ps(out + i, lanes, f(_mm512_mask_loadu_ps(avx512::all(1), lanes, x + i)));
  }
}

/// f computes 8 numbers in f64.
template <class F>
void for_wide_row(float* out, const float* x, int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    fetch_ahead(out + i, x + i);
    const __m256 a = f(_mm512_cvtps_pd(_mm256_loadu_ps(x + i)));
    const __m256 b = f(_mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8)));
    _mm256_storeu_ps(out + i, a);
    _mm256_storeu_ps(out + i + 8, b);
  }
  for (; i < n; i += 8) {
    const auto lanes = static_cast<__mmask8>(n - i >= 8 ? 0xff : (1u << (n - i)) - 1);
    _mm256_mask_storeu_ps(out + i, lanes, f(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, x + i))));
  }
}

/// x sigmoid(sqrt(8 / pi) (x + 0.044715 x³)), as math::GeluTanh.
__m512 gelu_tanh_of(__m512 x) {
  const __m512 bend = _mm512_mul_ps(_mm512_mul_ps(x, x), avx512::all(0.044715f));
  const __m512 sum = _mm512_fmadd_ps(bend, x, x);
  return _mm512_mul_ps(x, avx512::sigmoid_of(_mm512_mul_ps(sum, avx512::all(1.59576912f))));
}

}  // namespace

void exp_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::exp_of(v); });
}
void log_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::log_of(v); });
}
void sqrt_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::sqrt_of(v); });
}
void tanh_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::tanh_of(v); });
}
void sigmoid_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::sigmoid_of(v); });
}
void silu_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return _mm512_mul_ps(v, avx512::sigmoid_of(v)); });
}
void gelu_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return avx512::gelu_of(v); });
}
void gelu_tanh_avx512(float* out, const float* x, int64_t n) {
  for_row(out, x, n, [](__m512 v) { return gelu_tanh_of(v); });
}
void sin_avx512(float* out, const float* x, int64_t n) {
  for_wide_row(out, x, n, [](__m512d v) { return avx512::sine_of(v); });
}
void cos_avx512(float* out, const float* x, int64_t n) {
  for_wide_row(out, x, n, [](__m512d v) { return avx512::cosine_of(v); });
}

}  // namespace lathe::cpu
