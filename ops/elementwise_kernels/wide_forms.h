// Forms of libm's functions that compilers turn into vector code, for rows of f32 on the CPU. A
// form holds for numbers in its range; the others go to the functor. Those of fmod and remainder
// are computed in f64 and are exact, also for i64; angle_forms.h states the errors of the others.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lathe/ops/elementwise_kernels/angle_forms.h"
#include "lathe/ops/elementwise_kernels/binary_math.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"

namespace lathe::cpu {

/// No form: WideForm<F>::kExists is false.
template <class F>
struct WideForm {
  static constexpr bool kExists = false;
};

namespace wide_forms {

/// fmod, exactly.
inline float rest_of(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  return std::copysign(static_cast<float>(x - std::trunc(x / y) * y), a);
}

/// The quotient is small enough that it and its product with b are exact.
inline bool divides(float a, float b) {
  constexpr float kMost = 134217728.0f;  // 2^27
  const float top = std::fabs(a), bottom = std::fabs(b);
  const bool small = top < kMost * bottom, finite = bottom <= 1e30f;
  return small & finite;
}

// The same for integers. A processor divides f64 numbers side by side, but not integers.
inline int64_t rest_of(int64_t a, int64_t b) {
  return a - static_cast<int64_t>(static_cast<double>(a) / static_cast<double>(b)) * b;
}
/// f64 holds both exactly, and the quotient is too far from the next integer to be rounded to it.
inline bool divides(int64_t a, int64_t b) {
  constexpr uint64_t kMost = uint64_t{1} << 51;
  const uint64_t top = static_cast<uint64_t>(a) + kMost, bottom = static_cast<uint64_t>(b) + kMost;
  return ((top | bottom) < 2 * kMost) & (b != 0);
}

}  // namespace wide_forms

template <>
struct WideForm<math::Fmod> {
  static constexpr bool kExists = true;
  static bool holds(float a, float b) { return wide_forms::divides(a, b); }
  static float value(float a, float b) { return wide_forms::rest_of(a, b); }
  static bool holds(int64_t a, int64_t b) { return wide_forms::divides(a, b); }
  static int64_t value(int64_t a, int64_t b) { return wide_forms::rest_of(a, b); }
};
template <>
struct WideForm<math::Remainder> {
  static constexpr bool kExists = true;
  static bool holds(float a, float b) { return wide_forms::divides(a, b); }
  static float value(float a, float b) {
    const float rest = wide_forms::rest_of(a, b);
    const bool other_sign = (rest != 0.0f) & ((rest < 0.0f) != (b < 0.0f));
    return other_sign ? rest + b : rest;
  }
  static bool holds(int64_t a, int64_t b) { return wide_forms::divides(a, b); }
  static int64_t value(int64_t a, int64_t b) {
    const int64_t rest = wide_forms::rest_of(a, b);
    const bool other_sign = (rest != 0) & ((rest ^ b) < 0);
    return other_sign ? rest + b : rest;
  }
};

template <>
struct WideForm<math::Atan2> {
  static constexpr bool kExists = true;
  static bool holds(float, float) { return true; }
  static float value(float y, float x) { return wide_forms::angle_of(y, x); }
};
template <>
struct WideForm<math::Pow> {
  static constexpr bool kExists = true;
  static bool holds(float a, float b) { return wide_forms::has_power(a, b); }
  static float value(float a, float b) { return wide_forms::power_of(a, b); }
};
template <>
struct WideForm<math::Sin> {
  static constexpr bool kExists = true;
  static bool holds(float x) { return std::fabs(x) <= wide_forms::kLargestAngle; }
  static float value(float x) { return wide_forms::sine_of(x); }
};
template <>
struct WideForm<math::Cos> {
  static constexpr bool kExists = true;
  static bool holds(float x) { return std::fabs(x) <= wide_forms::kLargestAngle; }
  static float value(float x) { return wide_forms::cosine_of(x); }
};
template <>
struct WideForm<math::Tan> {
  static constexpr bool kExists = true;
  static bool holds(float x) { return std::fabs(x) <= wide_forms::kLargestAngle; }
  static float value(float x) { return wide_forms::tangent_of(x); }
};

/// True if F has a form for numbers of type T.
template <class F, class T>
constexpr bool kHasForm = (std::is_same_v<T, float> && WideForm<F>::kExists) ||
                          (std::is_same_v<T, int64_t> &&
                           (std::is_same_v<F, math::Fmod> || std::is_same_v<F, math::Remainder>));

/// f of one element: with the same bits as in a row.
template <class F, class... Xs>
inline auto in_form(F f, Xs... x) {
  if constexpr (WideForm<F>::kExists && (std::is_same_v<Xs, float> && ...)) {
    return WideForm<F>::holds(x...) ? WideForm<F>::value(x...) : f(x...);
  } else {
    return f(x...);
  }
}

}  // namespace lathe::cpu
