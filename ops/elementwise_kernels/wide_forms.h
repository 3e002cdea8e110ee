// Forms of libm's functions that compilers turn into vector code, for rows of f32 on the CPU. A
// form holds for numbers in its range; the others go to the functor. Those of fmod and remainder
// are computed in f64 and give libm's bits; angle_forms.h states the errors of the others.
#pragma once

#include <cmath>
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

}  // namespace wide_forms

template <>
struct WideForm<math::Fmod> {
  static constexpr bool kExists = true;
  static bool holds(float a, float b) { return wide_forms::divides(a, b); }
  static float value(float a, float b) { return wide_forms::rest_of(a, b); }
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
