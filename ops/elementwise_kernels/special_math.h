// The arithmetic of ops/special.h, shared by host and device. All in f64: an f32 result is then
// right to its last bit, and nobody calls these often enough to need more speed.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "lathe/core/config.h"
#include "lathe/core/visit.h"
#include "lathe/ops/special.h"

namespace lathe::math {

inline constexpr double kPi = 3.14159265358979323846;

/// ln |Γ(x)|. The host's std::lgamma() writes a global, `signgam`, from each thread.
LATHE_HD inline double log_gamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}

/// ψ(x) for x > 0: by ψ(x) = ψ(x + 1) - 1 / x up to 10, from there Stirling's series.
LATHE_HD inline double positive_digamma(double x) {
  double y = 0;
  for (; x < 10; x += 1) y -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 -
                                z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return y + std::log(x) - 0.5 / x - series;
}

/// x less the nearest whole number, without rounding; NaN at infinities.
LATHE_HD inline double beyond_whole(double x) { return x - std::nearbyint(x); }

LATHE_HD inline double digamma_of(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x > 0) return std::isinf(x) ? x : positive_digamma(x);
  const double beyond = beyond_whole(x);  // the tangent has period 1
  if (beyond == 0) return std::numeric_limits<double>::quiet_NaN();
  return positive_digamma(1 - x) - kPi / std::tan(kPi * beyond);
}

/// n! / q^n. The product falls until i passes q and rises from there, so that no step of it leaves
/// the range of f64 unless the result does.
LATHE_HD inline double factorial_over_power(int64_t n, double q) {
  const double last = static_cast<double>(n);
  if (n > 170) return std::exp(log_gamma(last + 1) - last * std::log(q));
  double y = 1;
  for (int64_t i = 1; i <= n; ++i) y *= static_cast<double>(i) / q;
  return y;
}

/// n! ζ(n + 1, q) for n >= 1 and q >= 0, where Hurwitz's ζ(s, q) is the sum of (q + k)^-s over
/// k >= 0: the first terms, and Euler and Maclaurin's formula for the rest. All terms are divided
/// by the first, which may be far outside the range of f64.
LATHE_HD inline double positive_polygamma(int64_t n, double q) {
  const double s = static_cast<double>(n) + 1;
  const double scale = factorial_over_power(n, q);
  if (scale == 0 || std::isinf(scale)) return scale;
  const double far = 1.3 * (s + 8);  // from there the formula below holds to the last bit of f64
  double sum = 0, z = q;
  for (int k = 0; k < 64 && z < far; ++k, z += 1) {  // no s needs 64 terms
    const double term = std::pow(q / z, s);
    sum += term;
    if (term < 1e-18 * sum) return scale / q * sum;
  }
  const double term = std::pow(q / z, s);
  sum += term * (z / (s - 1) + 0.5);
  // B[2j] / (2j)! for j = 1, …, times s (s + 1) … (s + 2j - 2) z^(1 - s - 2j)
  constexpr double factors[] = {1.0 / 12,          -1.0 / 720,
                                1.0 / 30240,       -1.0 / 1209600,
                                1.0 / 47900160,    -691.0 / 1307674368000,
                                1.0 / 74724249600, -3617.0 / 10670622842880000};
  double rising = s * term / z;
  double k = s;
  for (const double factor : factors) {
    sum += factor * rising;
    rising *= (k + 1) * (k + 2) / (z * z);
    k += 2;
  }
  return scale * (sum / q);
}

/// (-1)^(n + 1) n! ζ(n + 1, x). For x <= 0 the sum over all integers, which has period 1, less the
/// sum on the other side.
LATHE_HD inline double polygamma_of(int64_t n, double x) {
  const double other = n % 2 == 0 ? -1 : 1;  // (-1)^(n + 1)
  if (x > 0) return other * positive_polygamma(n, x);
  const double beyond = beyond_whole(x), near = std::fabs(beyond);
  const double nearer = positive_polygamma(n, near), farther = positive_polygamma(n, 1 - near);
  const double outside = positive_polygamma(n, 1 - x);
  // Two infinities must not meet: halves cancel, and otherwise the nearer pole decides.
  if (near == 0.5 && other < 0) return other * outside;
  const double side = beyond < 0 ? other : 1;
  if (std::isinf(nearer)) return other * side * nearer;
  return other * (side * (nearer + other * farther) - other * outside);
}

/// Rational functions to three digits (Blair, Edwards, Johnson 1976, doi:10.2307/2005402), then
/// Newton's method: each step squares the error. In the tails by erfc, which keeps the digits
/// of 1 - |x|.
LATHE_HD inline double erfinv_of(double x) {
  const double a = std::fabs(x);
  if (!(a <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  constexpr double kHalfRootPi = 0.88622692545275801365;
  double y = 0;
  if (a <= 0.7) {
    const double z = x * x;
    const double above = ((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899;
    const double below =
        (((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1;
    y = a * above / below;
    for (int i = 0; i < 2; ++i) y -= (std::erf(y) - a) * kHalfRootPi * std::exp(y * y);
  } else {
    const double z = std::sqrt(-std::log((1 - a) / 2));
    const double above = ((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454;
    y = above / ((1.637067800 * z + 3.543889200) * z + 1);
    for (int i = 0; i < 3; ++i) y += (std::erfc(y) - (1 - a)) * kHalfRootPi * std::exp(y * y);
  }
  return std::copysign(y, x);
}

// clang-format off
struct Lgamma    { template <class T> LATHE_HD T operator()(T x) const { return T(log_gamma(double(x))); } };
struct Digamma   { template <class T> LATHE_HD T operator()(T x) const { return T(digamma_of(double(x))); } };
struct Polygamma { int64_t n; template <class T> LATHE_HD T operator()(T x) const { return T(polygamma_of(n, double(x))); } };
struct Erfinv    { template <class T> LATHE_HD T operator()(T x) const { return T(erfinv_of(double(x))); } };
// clang-format on

/// Calls run(TypeTag<T>, f) for x of `dtype`: f is the op's functor.
template <class Run>
void visit_special(SpecialOp op, DType dtype, int64_t n, const Run& run) {
  const auto floats = [&](const char* name, auto f) {
    visit_float(dtype, name, [&](auto type) { run(type, f); });
  };
  switch (op) {
    case SpecialOp::kLgamma: return floats("lgamma", Lgamma{});
    case SpecialOp::kDigamma: return floats("digamma", Digamma{});
    case SpecialOp::kPolygamma: return floats("polygamma", Polygamma{n});
    case SpecialOp::kErfinv: return floats("erfinv", Erfinv{});
  }
}

}  // namespace lathe::math
