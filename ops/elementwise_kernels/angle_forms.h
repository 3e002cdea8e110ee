// Forms of sin, cos, tan, atan2 and pow that compilers turn into vector code, for rows of f32 on
// the CPU: wide_forms.h. The polynomials are near the best of their degree in relative error.
#pragma once

#include <cmath>
#include <cstdint>

namespace lathe::cpu::wide_forms {

[[gnu::always_inline]] inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
[[gnu::always_inline]] inline float float_of(uint32_t b) { return __builtin_bit_cast(float, b); }

/// 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits.
inline constexpr double kRoundDouble = 6755399441055744.0;

/// Up to here the forms of sin, cos and tan hold.
inline constexpr float kLargestAngle = 3000.0f;

/// sin x for |x| = |n pi + r| <= kLargestAngle, where `shifted` is n + kRoundDouble. pi has two
/// parts; the first has 24 bits, so that its product with n is exact. The polynomial is within
/// 3e-11 of sin r for |r| <= pi / 2.
[[gnu::always_inline]] inline double sine_in_half_turn(double x, double shifted, double n) {
  const double r = (x - n * 3.1415927410125732) - n * -8.742278000372485e-08, z = r * r;
  double p = -2.388774789206999e-8;
  p = p * z + 2.7525320008804665e-6;
  p = p * z - 1.98408669863728e-4;
  p = p * z + 8.333331099511924e-3;
  p = p * z - 0.1666666662594135;
  const double y = r + r * (z * p);
  const uint64_t odd = __builtin_bit_cast(uint64_t, shifted) << 63;  // sin changes its sign
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, y) ^ odd);
}
[[gnu::always_inline]] inline double wide_sine(double x) {
  const double shifted = x * 0.31830988618379067 + kRoundDouble;
  return sine_in_half_turn(x, shifted, shifted - kRoundDouble);
}
/// cos x = -sin(x - pi / 2)
[[gnu::always_inline]] inline double wide_cosine(double x) {
  const double shifted = (x * 0.31830988618379067 - 0.5) + kRoundDouble;
  return -sine_in_half_turn(x, shifted, (shifted - kRoundDouble) + 0.5);
}

/// sin, cos and tan of x to 0.51 ulp. They are computed in f64: an ulp of the points on a circle
/// that a normalising flow learned moved its tenth loss by 2e-4.
[[gnu::always_inline]] inline float sine_of(float x) {
  const float y = static_cast<float>(wide_sine(static_cast<double>(x)));
  return x == 0.0f ? x : y;  // -0 stays -0
}
[[gnu::always_inline]] inline float cosine_of(float x) {
  return static_cast<float>(wide_cosine(static_cast<double>(x)));
}
[[gnu::always_inline]] inline float tangent_of(float x) {
  const double wide = static_cast<double>(x);
  const float y = static_cast<float>(wide_sine(wide) / wide_cosine(wide));
  return x == 0.0f ? x : y;
}

/// atan2(y, x) to 2 ulp, for all numbers: atan t of t = least / most of the sizes, moved into the
/// right eighth of the circle. The polynomial is within 3e-9 of atan t; pi has two parts.
[[gnu::always_inline]] inline float angle_of(float y, float x) {
  const float rise = std::fabs(y), run = std::fabs(x);
  const float most = rise > run ? rise : run, least = rise > run ? run : rise;
  const float ratio = least / most, edge = least == most ? 1.0f : ratio;  // also of two infinities
  const float t = most == 0.0f ? 0.0f : edge, z = t * t;
  float p = -1.79361994e-3f;
  p = p * z + 1.09145986e-2f;
  p = p * z - 3.11778337e-2f;
  p = p * z + 5.79575822e-2f;
  p = p * z - 8.40344951e-2f;
  p = p * z + 0.109521858f;
  p = p * z - 0.142642424f;
  p = p * z + 0.199985489f;
  p = p * z - 0.333332986f;
  const float flat = t + t * (z * p);
  const float steep = rise > run ? 1.57079637f - (flat + 4.37113883e-8f) : flat;
  const bool left = static_cast<int32_t>(bits_of(x)) < 0;  // also of -0
  const float angle = left ? 3.14159274f - (steep + 8.74227766e-8f) : steep;
  const float y_signed = std::copysign(angle, y);
  return ((x == x) & (y == y)) ? y_signed : x + y;
}

/// pow_of() holds for these. Negative bases need an integer exponent.
[[gnu::always_inline]] inline bool has_power(float a, float b) {
  const float size = std::fabs(a), steps = std::fabs(b);
  const bool normal = (size == 0.0f) | (size >= 1.17549435e-38f), finite = size <= 3.4e38f;
  const bool whole = (steps < 4194304.0f) & (std::trunc(b) == b);
  const bool has_log = (static_cast<int32_t>(bits_of(a)) >= 0) | whole;
  return normal & finite & has_log & (steps <= 1e30f);
}

/// a to the b, to 0.6 ulp: 2^(b log2 |a|) in f64. The logarithm is k + 2 atanh(s) / ln 2 for |a| =
/// 2^k m and s = (m - 1) / (m + 1), within 1e-12; the polynomial of 2^f is within 2e-9.
[[gnu::always_inline]] inline float power_of(float a, float b) {
  constexpr uint32_t kRootHalf = 0x3f3504f3u;  // sqrt(1/2)
  const uint32_t size = bits_of(a) & 0x7fffffffu, moved = size + (0x3f800000u - kRootHalf);
  const double k = static_cast<double>(static_cast<int32_t>(moved >> 23) - 127);
  const double m = static_cast<double>(float_of((moved & 0x007fffffu) + kRootHalf));
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 0.28255946096023077;
  p = p * z + 0.31993348108951797;
  p = p * z + 0.41220842713062844;
  p = p * z + 0.57707795294372799;
  p = p * z + 0.96179669405841295;
  const double t = (s * 2.8853900817779268 + s * (z * p) + k) * static_cast<double>(b);
  const double above = t < -160 ? -160 : t, inside = above > 160 ? 160 : above;
  const double shifted = inside + kRoundDouble, f = inside - (shifted - kRoundDouble);
  double e = 1.5478171689268036e-4;
  e = e * f + 1.3400565957828548e-3;
  e = e * f + 9.6179939740572134e-3;
  e = e * f + 5.5503268797075414e-2;
  e = e * f + 0.2402265150992921;
  e = e * f + 0.693147206867328;
  e = e * f + 1;
  const uint64_t exponent = (__builtin_bit_cast(uint64_t, shifted) + 1023u) << 52;
  const float power = static_cast<float>(e * __builtin_bit_cast(double, exponent));
  const float endless = b < 0.0f ? float_of(0x7f800000u) : 1.0f,
              of_zero = b > 0.0f ? 0.0f : endless;
  const float product = b == 2.0f ? a * a : a * a * a;
  const float general = size == 0 ? of_zero : power;
  const bool odd = std::trunc(b * 0.5f) * 2.0f != b;
  const float y = float_of(bits_of(general) | (odd ? bits_of(a) & 0x80000000u : 0u));
  return ((b == 2.0f) | (b == 3.0f)) ? product : y;  // as math::Pow
}

}  // namespace lathe::cpu::wide_forms
