// exp, log, tanh, erf and the normal distribution: float forms without branches or calls. Compilers
// turn them into vector code; they give the same bits on every processor and on a GPU. For doubles
// they are the standard library's. A CPU with AVX-512 computes rows by other forms (avx512_math.h),
// whose last bits differ. The polynomials of tanh, erf and erfc interpolate at the points of
// Chebyshev, those of exp and log are Cephes' and FreeBSD's.
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::math {

LATHE_HD inline double fast_exp(double x) { return std::exp(x); }

/// e^x to 2 ulp; 0 below -104, infinity above 88.73; NaN stays NaN. x = n ln 2 + r with
/// |r| <= ln 2 / 2; ln 2 is split in two so that r is exact; a polynomial gives e^r; 2^n is applied
/// as two factors so that subnormal results are right.
/// ref: Cephes' expf.
[[gnu::always_inline]] LATHE_HD inline float fast_exp(float x) {
  // 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
  constexpr float kRound = 12582912.0f;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // n, in two's complement.
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) - 0x4b400000u;
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(exponent) >> 1);
  const float low = __builtin_bit_cast(float, (half + 127u) << 23);
  const float high = __builtin_bit_cast(float, (exponent - half + 127u) << 23);
  return p * low * high;
}

LATHE_HD inline double fast_log(double x) { return std::log(x); }

/// ln x to 1 ulp; -infinity at 0, NaN below. x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2).
/// With s = f / (2 + f), ln(1 + f) = 2 s + s R(s²), where R is a polynomial. ln 2 is split in two,
/// so that k times its first part is exact.
/// ref: FreeBSD's logf.
[[gnu::always_inline]] LATHE_HD inline float fast_log(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3u;  // sqrt(1/2)
  const bool tiny = x < 1.17549435e-38f;       // subnormal, or out of the domain
  const uint32_t bits =
      __builtin_bit_cast(uint32_t, tiny ? x * 8388608.0f : x) + (0x3f800000u - kRootHalf);
  const float k = static_cast<float>(static_cast<int32_t>(bits >> 23) - (tiny ? 150 : 127));
  const float f = __builtin_bit_cast(float, (bits & 0x007fffffu) + kRootHalf) - 1.0f;
  const float s = f / (2.0f + f), z = s * s, w = z * z;
  const float r =
      w * (0.40000972152f + w * 0.24279078841f) + z * (0.66666662693f + w * 0.28498786688f);
  const float half = 0.5f * f * f;
  const float y = s * (half + r) + k * 9.0580006145e-6f - half + f + k * 6.9313812256e-1f;
  const float infinity = __builtin_bit_cast(float, 0x7f800000u);
  const float end = x == 0.0f ? -infinity : x == infinity ? x : x - x;  // NaN of NaN
  const float outside = x < 0.0f ? __builtin_bit_cast(float, 0x7fc00000u) : end;
  return x > 0.0f && x < infinity ? y : outside;
}

LATHE_HD inline double fast_log1p(double x) { return std::log1p(x); }

/// ln(1 + x) to 1 ulp; -infinity at -1, NaN below. fast_log of the rounded sum 2^k (1 + f),
/// plus c / (1 + f), where c is what rounding took from x, divided by 2^k. A few terms of its
/// series in s = f / (2 + f) are enough: c is less than an ulp.
[[gnu::always_inline]] LATHE_HD inline float fast_log1p(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3u;  // sqrt(1/2)
  const float sum = 1.0f + x, lost = x < 1e8f ? x - (sum - 1.0f) : 0.0f;
  const uint32_t bits = __builtin_bit_cast(uint32_t, sum) + (0x3f800000u - kRootHalf);
  const int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  const uint32_t inverse = static_cast<uint32_t>(127 - (exponent < 126 ? exponent : 126)) << 23;
  const float k = static_cast<float>(exponent), c = lost * __builtin_bit_cast(float, inverse);
  const float f = __builtin_bit_cast(float, (bits & 0x007fffffu) + kRootHalf) - 1.0f;
  const float s = f / (2.0f + f), z = s * s, w = z * z;
  const float r =
      w * (0.40000972152f + w * 0.24279078841f) + z * (0.66666662693f + w * 0.28498786688f);
  const float half = 0.5f * f * f, rest = c - 2.0f * s * c + 2.0f * z * c;
  const float y = s * (half + r) + (k * 9.0580006145e-6f + rest) - half + f + k * 6.9313812256e-1f;
  const float infinity = __builtin_bit_cast(float, 0x7f800000u);
  const float end = x == -1.0f ? -infinity : x == infinity ? x : x - x;  // NaN of NaN
  const float outside = x < -1.0f ? __builtin_bit_cast(float, 0x7fc00000u) : end;
  const float inside = x == 0.0f ? x : y;  // -0 stays -0
  return ((x > -1.0f) & (x < infinity)) ? inside : outside;
}

LATHE_HD inline double log1p_of_share(double e) { return std::log1p(e); }

/// ln(1 + e) for e from 0 to 1, to 2 ulp: 2 atanh q with q = e / (2 + e), where 2 q = e - q e. The
/// polynomial of degree 9 in q is within 1e-8 of atanh.
[[gnu::always_inline]] LATHE_HD inline float log1p_of_share(float e) {
  const float q = e / (2.0f + e), z = q * q;
  float p = 0.280244648f;
  p = p * z + 0.279991388f;
  p = p * z + 0.400216997f;
  p = p * z + 0.666664124f;
  return e - q * (e - z * p);
}

LATHE_HD inline double fast_expm1(double x) { return std::expm1(x); }

/// e^x - 1 to 2 ulp; infinity above 88.73; -0 stays -0. With n and r of fast_exp: 2^n (e^r - 1) and
/// 2^n - 1, of half of 2^n because there is no 2^128.
[[gnu::always_inline]] LATHE_HD inline float fast_expm1(float x) {
  constexpr float kRound = 12582912.0f;
  const float raised = x < -18.0f ? -18.0f : x, v = raised > 89.0f ? 89.0f : raised;
  const float shifted = v * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.39465311e-3f;
  p = p * r + 8.36663134e-3f;
  p = p * r + 4.16662805e-2f;
  p = p * r + 1.6666542e-1f;
  p = p * r + 0.5f;
  p = r + r * r * p;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) << 23;
  const float half = __builtin_bit_cast(float, exponent + 0x3f000000u);
  const float y = 2.0f * (half * p + (half - 0.5f));
  return std::copysign(n == 0.0f ? p : y, x);
}

LATHE_HD inline double fast_tanh(double x) { return std::tanh(x); }

/// tanh x to 2 ulp: an odd polynomial below 0.6, (1 - e) / (1 + e) with e = e^(-2|x|) above.
[[gnu::always_inline]] LATHE_HD inline float fast_tanh(float x) {
  const float size = std::fabs(x), s = x * x;
  float p = -6.2691191e-3f;
  p = p * s + 2.1110959e-2f;
  p = p * s - 5.3873949e-2f;
  p = p * s + 1.3332915e-1f;
  p = p * s - 3.3333331e-1f;
  const float small = size + size * (p * s);
  const float e = fast_exp(-2.0f * size);
  const float large = (1.0f - e) / (1.0f + e);
  return std::copysign(size < 0.6f ? small : large, x);
}

/// Below this erf is the polynomial erf_below(), above it 1 - erfc.
inline constexpr float kErfBend = 0.9f;

/// erf x for |x| < kErfBend, to 2 ulp.
[[gnu::always_inline]] LATHE_HD inline float erf_below(float x) {
  const float s = x * x;
  float p = -6.1026867e-4f;
  p = p * s + 5.0144843e-3f;
  p = p * s - 2.6780719e-2f;
  p = p * s + 1.1282194e-1f;
  p = p * s - 3.7612528e-1f;
  p = p * s + 1.2837915e-1f;
  return x + x * p;
}

/// erfc(t) / 2 for t >= 0, given e = e^(-t²): e times a polynomial of u = 1 / (1 + t sqrt(2) / 4),
/// to 6 ulp of the exact value for that e.
[[gnu::always_inline]] LATHE_HD inline float half_erfc(float t, float e) {
  const float u = 1.0f / (1.0f + 0.35355339f * t);
  float p = 2.0814888e-2f;
  p = p * u - 8.5389227e-2f;
  p = p * u + 1.0379886e-1f;
  p = p * u - 3.9746862e-2f;
  p = p * u + 6.8273999e-2f;
  p = p * u + 5.7446260e-2f;
  p = p * u + 8.1889629e-2f;
  p = p * u + 9.3439512e-2f;
  p = p * u + 9.9737398e-2f;
  p = p * u + 9.9735558e-2f;
  return e * (p * u);
}

LATHE_HD inline double fast_erf(double x) { return std::erf(x); }

/// erf x to 2 ulp.
[[gnu::always_inline]] LATHE_HD inline float fast_erf(float x) {
  const float t = std::fabs(x);
  const float large = 1.0f - 2.0f * half_erfc(t, fast_exp(-t * t));
  return t < kErfBend ? erf_below(x) : std::copysign(large, x);
}

/// The standard normal distribution at a point.
template <class T>
struct Normal {
  T cdf;   // P(X <= x)
  T bell;  // e^(-x²/2): the density without its factor 1 / sqrt(2 pi)
};

LATHE_HD inline Normal<double> normal_at(double x) {
  return {0.5 * (1 + std::erf(x * 0.70710678118654752440)), std::exp(-0.5 * x * x)};
}

/// cdf: to 2 ulp for x >= 0, to 4 ulp down to -1.2, to 8 ulp down to -4; below, where it is less
/// than 4e-5, its relative error is at most 1e-5.
[[gnu::always_inline]] LATHE_HD inline Normal<float> normal_at(float x) {
  const float t = std::fabs(x) * 0.70710678f, bell = fast_exp(-0.5f * x * x);
  const float tail = half_erfc(t, bell), near = 0.5f + 0.5f * erf_below(x * 0.70710678f);
  const float far = x < 0.0f ? tail : 1.0f - tail;
  return {t < kErfBend ? near : far, bell};
}

}  // namespace lathe::math
