// Functions of 16 floats at a time, in AVX-512. For *_amx.cpp and *_avx512.cpp files: it includes
// nothing that the rest of the library uses. NaN stays NaN; -0 stays -0 where the function is odd.
// The polynomials and quotients of polynomials are near the best of their degree in relative error.
// Empty where other code includes it: functions of vectors cannot be compiled there.
#pragma once

#ifdef __AVX512DQ__

#  include <immintrin.h>

namespace lathe::cpu::avx512 {

static inline __m512 all(float x) { return _mm512_set1_ps(x); }

/// c[0] x^n + ... + c[n]
template <int count>
static inline __m512 polynomial(__m512 x, const float (&c)[count]) {
  __m512 p = all(c[0]);
  for (int i = 1; i < count; ++i) p = _mm512_fmadd_ps(p, x, all(c[i]));
  return p;
}

/// 1 / x to 1 ulp, for 2^-126 <= x <= 2^126. One step of Newton's method doubles the digits.
static inline __m512 inverse_of(__m512 x) {
  const __m512 near = _mm512_rcp14_ps(x);
  return _mm512_fmadd_ps(near, _mm512_fnmadd_ps(near, x, all(1)), near);
}

/// 2^(i/16) for i in the low four bits.
static inline __m512 root_of_two(__m512 i) {
  alignas(64) static constexpr float kRoots[16] = {
      1.0f,          1.0442737824f, 1.0905077327f, 1.1387886348f, 1.1892071150f, 1.2418578121f,
      1.2968395547f, 1.3542555469f, 1.4142135624f, 1.4768261459f, 1.5422108254f, 1.6104903319f,
      1.6817928305f, 1.7562521604f, 1.8340080864f, 1.9152065614f};
  return _mm512_permutexvar_ps(_mm512_castps_si512(i), _mm512_load_ps(kRoots));
}

/// e^(times x) to 1 ulp for |times x| <= 110. That product is n ln 2 + times r, where n counts
/// sixteenths and |times r| <= ln 2 / 32.
template <int times = 1>
static inline __m512 exp_within(__m512 x) {
  constexpr float kTimes = times, kSquare = kTimes * kTimes, kCube = kSquare * kTimes;
  // 1.5 * 2^19: adding it rounds to a sixteenth; their number then stands in the low bits.
  const __m512 to_round = all(786432.0f);
  const __m512 shifted = _mm512_fmadd_ps(x, all(kTimes * 1.44269504f), to_round);
  const __m512 n = _mm512_sub_ps(shifted, to_round);
  // ln 2 has two parts, so that r has all its digits.
  const __m512 near = _mm512_fnmadd_ps(n, all(0.693147182f / kTimes), x);
  const __m512 r = _mm512_fnmadd_ps(n, all(-1.90465421e-9f / kTimes), near);
  const __m512 bend = _mm512_fmadd_ps(r, all(kCube * 0.16667054f), all(kSquare * 0.50001651f));
  const __m512 expm1 = _mm512_mul_ps(_mm512_fmadd_ps(r, bend, all(kTimes)), r);
  const __m512 root = root_of_two(shifted);
  return _mm512_scalef_ps(_mm512_fmadd_ps(root, expm1, root), n);  // takes the floor of n
}

/// e^x to 1 ulp: 0 below -104, infinity above 88.73.
static inline __m512 exp_of(__m512 x) {
  return exp_within(_mm512_min_ps(all(89), _mm512_max_ps(all(-104), x)));
}

/// ln x to 1 ulp; -infinity at 0, NaN below. x = 2^k (1 + f) with 1 + f from 3/4 to 3/2. ln 2 has
/// two parts, so that k times the first is exact.
static inline __m512 log_of(__m512 x) {
  const __m512 mantissa = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
  const __m512 k = _mm512_add_ps(_mm512_getexp_ps(_mm512_mul_ps(x, all(0.66666669f))), all(1));
  const __m512 f = _mm512_sub_ps(mantissa, all(1)), square = _mm512_mul_ps(f, f);
  const __m512 p = polynomial(f, {-0.0450748072f, 0.104630227f, -0.131611936f, 0.144783949f,
                                  -0.166473122f, 0.199908612f, -0.250000958f, 0.333334491f});
  __m512 y = _mm512_mul_ps(_mm512_mul_ps(square, f), p);
  y = _mm512_fmadd_ps(k, all(-2.12194440e-4f), y);
  y = _mm512_fmadd_ps(square, all(-0.5f), y);
  y = _mm512_fmadd_ps(k, all(0.693359375f), _mm512_add_ps(y, f));
  constexpr int kNan = 0x81, kZero = 0x06, kInfinite = 0x18, kNegative = 0x40;
  const __mmask16 odd = _mm512_fpclass_ps_mask(x, kNan | kZero | kInfinite | kNegative);
  if (__builtin_expect(odd != 0, 0)) {
    const __m512 zero = _mm512_setzero_ps();
    const __mmask16 below = _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ);
    const __mmask16 at_zero = _mm512_cmp_ps_mask(x, zero, _CMP_EQ_OQ);
    __m512 end = _mm512_mask_mov_ps(x, below, all(__builtin_nanf("")));  // infinity and NaN stay
    end = _mm512_mask_mov_ps(end, at_zero, all(-__builtin_inff()));
    y = _mm512_mask_mov_ps(y, odd, end);
  }
  return y;
}

/// min(|x|, most); most for NaN.
static inline __m512 least_size_of(__m512 x, float most) {
  constexpr int kLeastSize = 0x0a;
  return _mm512_range_ps(x, all(most), kLeastSize);
}

/// |x| with the sign of -1.
static inline __m512 minus_size_of(__m512 x) { return _mm512_or_ps(x, all(-0.0f)); }

/// 1 / (1 + e^-x) to 3 ulp. The exponential is at most 1.
static inline __m512 sigmoid_of(__m512 x) {
  const __m512 e = exp_within(_mm512_max_ps(all(-104), minus_size_of(x)));
  const __m512 share = inverse_of(_mm512_add_ps(e, all(1)));
  return _mm512_mask_mul_ps(share, _mm512_movepi32_mask(_mm512_castps_si512(x)), share, e);
}

/// tanh x to 2 ulp: an odd polynomial below 1/2, 1 - 2 / (1 + e^(2|x|)) above.
static inline __m512 tanh_of(__m512 x) {
  const __m512 square = _mm512_mul_ps(x, x);
  const __m512 p = polynomial(square, {0.0172414944f, -0.0530454958f, 0.13325879f, -0.333331439f});
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, square), x, x);
  const __m512 e = exp_within<2>(least_size_of(x, 10));
  const __m512 share = inverse_of(_mm512_add_ps(e, all(1)));
  const __m512 large = _mm512_fnmadd_ps(share, all(2), all(1));
  const __mmask16 is_large = _mm512_cmp_ps_mask(square, all(0.25f), _CMP_GE_OQ);  // not of NaN
  const __m512 y = _mm512_mask_mov_ps(small, is_large, large);
  return _mm512_or_ps(y, _mm512_and_ps(x, all(-0.0f)));
}

/// x times the standard normal distribution at x: to 4 ulp for x >= -1.2, to 8 ulp down to -4;
/// below, the relative error is at most 1e-5. The part of the distribution beyond |x| is e^(-x²/2)
/// times a quotient of polynomials.
static inline __m512 gelu_of(__m512 x) {
  const __m512 size = least_size_of(x, 14.5f);
  const __m512 bell = exp_within(_mm512_mul_ps(_mm512_mul_ps(size, size), all(-0.5f)));
  const __m512 p =
      polynomial(size, {0.00411631717f, 0.0406332715f, 0.183235257f, 0.438295091f, 0.5f});
  const __m512 q =
      polynomial(size, {0.0103179573f, 0.101858954f, 0.46947095f, 1.2025036f, 1.67447516f, 1.0f});
  const __m512 beyond = _mm512_mul_ps(_mm512_mul_ps(p, inverse_of(q)), bell);
  const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
  const __m512 of_negative = _mm512_mul_ps(x, beyond);
  return _mm512_mask_mov_ps(of_negative, above, _mm512_fnmadd_ps(size, beyond, x));
}

/// The square root, correctly rounded: two steps of Newton's method, the second with the exact
/// remainder x - g². Far from 1 the remainder would lose digits.
static inline __m512 sqrt_of(__m512 x) {
  const __m512i from_least =
      _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x0f800000));
  const __mmask16 far = _mm512_cmpge_epu32_mask(from_least, _mm512_set1_epi32(0x6e800000));
  if (__builtin_expect(far != 0, 0)) return _mm512_sqrt_ps(x);  // also 0, infinity, NaN, below 0
  const __m512 near = _mm512_rsqrt14_ps(x);
  __m512 g = _mm512_mul_ps(x, near), h = _mm512_mul_ps(near, all(0.5f));
  const __m512 error = _mm512_fnmadd_ps(g, h, all(0.5f));
  g = _mm512_fmadd_ps(g, error, g);
  h = _mm512_fmadd_ps(h, error, h);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(g, g, x), h, g);
}

/// sin r for r = x - n pi; -sin r if the integer in the low bits of `shifted` is odd. pi has two
/// parts. The polynomial is within 3e-11 of sin r / r for |r| <= pi / 2.
static inline __m256 sine_in_half_turn(__m512d x, __m512d shifted, __m512d n) {
  __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(3.141592653589793), x);
  r = _mm512_fnmadd_pd(n, _mm512_set1_pd(1.2246467991473532e-16), r);
  const __m512d square = _mm512_mul_pd(r, r);
  constexpr double kFactors[] = {-2.388774789206999e-8, 2.7525320008804665e-6, -1.98408669863728e-4,
                                 8.333331099511924e-3,  -0.1666666662594135,   1.0};
  __m512d p = _mm512_set1_pd(kFactors[0]);
  for (int i = 1; i < 6; ++i) p = _mm512_fmadd_pd(p, square, _mm512_set1_pd(kFactors[i]));
  const __m512i odd = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 63);  // sin changes its sign
  const __m512i y = _mm512_castpd_si512(_mm512_mul_pd(r, p));
  return _mm512_cvtpd_ps(_mm512_castsi512_pd(_mm512_xor_si512(y, odd)));
}

/// sin x and cos x to 0.51 ulp, of 8 numbers up to 3,000, computed in f64 as in angle_forms.h.
static inline __m256 sine_of(__m512d x) {
  const __m512d to_round = _mm512_set1_pd(6755399441055744.0);  // 1.5 * 2^52
  const __m512d shifted = _mm512_fmadd_pd(x, _mm512_set1_pd(0.31830988618379067), to_round);
  return sine_in_half_turn(x, shifted, _mm512_sub_pd(shifted, to_round));
}
static inline __m256 cosine_of(__m512d x) {  // sin(pi / 2 - x) = sin(x + pi / 2)
  const __m512d to_round = _mm512_set1_pd(6755399441055744.0), half = _mm512_set1_pd(0.5);
  const __m512d turns = _mm512_fmadd_pd(x, _mm512_set1_pd(0.31830988618379067), half);
  const __m512d shifted = _mm512_add_pd(turns, to_round);
  return sine_in_half_turn(x, shifted, _mm512_sub_pd(_mm512_sub_pd(shifted, to_round), half));
}

}  // namespace lathe::cpu::avx512

#endif
