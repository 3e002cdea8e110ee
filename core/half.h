// Half (IEEE binary16) and BFloat16: storage types. Arithmetic on them is float arithmetic: both
// convert to float implicitly and back only explicitly, so `T(a * b + c)` rounds once. The same
// code runs on host and device.
//
// Every source type is rounded to nearest even, double and integers too (they are not rounded
// twice). The bits equal those of CUDA's __float2half_rn / __float2bfloat16_rn and their double
// forms: overflow gives infinity, subnormals are kept, and every NaN becomes 0x7fff. Half -> float
// turns every NaN into 0x7fffffff; bfloat16 -> float moves the bits and so keeps NaN payloads.
// Arrays are converted by `convert` below.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"

namespace lathe {

namespace half_detail {

LATHE_HD constexpr uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
LATHE_HD constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Each function computes all its cases and then selects, without branches, so that a loop over it
// is vectorised. The GPU has one instruction for each, in place of about 20.

LATHE_HD constexpr uint16_t half_from_float(float value) {
  LATHE_PTX(uint16_t, "=h", "cvt.rn.f16.f32 %0, %1;", "f", value)
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  // Normal range: re-bias the exponent by 127 - 15 and round at bit 13; a carry moves into the
  // exponent, as it should.
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  // Below 2^-14: after adding 0.5 the half's last bit, 2^-24, is the float's last bit, so the
  // addition rounds.
  const uint32_t small = bits_of(float_of(magnitude < (113u << 23) ? magnitude : 0u) + 0.5f);
  uint32_t result = magnitude < (113u << 23) ? small - bits_of(0.5f) : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and above: infinity
  result |= sign;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7fffu : result);
}

LATHE_HD constexpr float float_from_half(uint16_t half) {
  LATHE_PTX(float, "=f", "cvt.f32.f16 %0, %1;", "h", half)
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  // Below 2^-14: 2^-14 * (1 + m / 1024) - 2^-14 is exact, and both operands are normal floats.
  const uint32_t subnormal = bits_of(float_of((magnitude << 13) + (113u << 23)) - 0x1p-14f);
  uint32_t result = magnitude < 0x400u ? subnormal : normal;
  result = magnitude >= 0x7c00u ? 0x7f800000u : result;
  result = magnitude > 0x7c00u ? 0x7fffffffu : result | sign;
  return float_of(result);
}

LATHE_HD constexpr uint16_t bfloat16_from_float(float value) {
  LATHE_PTX(uint16_t, "=h", "cvt.rn.bf16.f32 %0, %1;", "f", value)
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

LATHE_HD constexpr float float_from_bfloat16(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

// Rounds a double to a float by the rule "to odd": truncates, and sets the last bit if anything was
// lost. Rounding the result again to at most 22 bits gives the same as rounding the double once
// (Boldo and Melquiond 2008).
LATHE_HD constexpr float float_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  uint32_t bits = bits_of(nearest);
  if (back == value || back != back) return nearest;  // exact, or NaN
  const bool away = value < 0 ? back < value : back > value;
  if (away) bits -= 1;  // one step towards 0; from infinity to the largest float
  return float_of(bits | 1u);
}

// Converts an integer to a double, exactly below 2^53. From 2^53 on, the low 12 bits of the
// magnitude become 0, or 0x800 if one of them was set (the rule "to odd" of float_to_odd()). At
// least 42 bits stay, so rounding the result to Half or BFloat16 is like rounding the integer once.
template <std::integral T>
LATHE_HD constexpr double double_to_odd(T value) {
  const bool negative = value < T(0);
  uint64_t magnitude = static_cast<uint64_t>(value);
  if (negative) magnitude = 0 - magnitude;
  if (magnitude >> 53 != 0) {
    const uint64_t lost = magnitude & 0xfffu;
    magnitude = (magnitude - lost) | (lost != 0 ? 0x800u : 0u);
  }
  const double result = static_cast<double>(magnitude);
  return negative ? -result : result;
}

}  // namespace half_detail

/// IEEE binary16: 11 significant bits, largest 65504, smallest 2^-24.
struct Half {
  uint16_t bits;

  Half() = default;  // undefined value, like a built-in number
  LATHE_HD constexpr explicit Half(float value) : bits(half_detail::half_from_float(value)) {}
  LATHE_HD constexpr explicit Half(double value) : Half(half_detail::float_to_odd(value)) {}
  template <std::integral T>
  LATHE_HD constexpr explicit Half(T value) : Half(half_detail::double_to_odd(value)) {}

  LATHE_HD static constexpr Half from_bits(uint16_t pattern) {
    Half result(0.0f);
    result.bits = pattern;
    return result;
  }

  LATHE_HD constexpr operator float() const { return half_detail::float_from_half(bits); }
  LATHE_HD constexpr Half& operator+=(float b) { return *this = Half(float{*this} + b); }
  LATHE_HD constexpr Half& operator-=(float b) { return *this = Half(float{*this} - b); }
  LATHE_HD constexpr Half& operator*=(float b) { return *this = Half(float{*this} * b); }
  LATHE_HD constexpr Half& operator/=(float b) { return *this = Half(float{*this} / b); }
};

/// The upper half of a float: 8 significant bits, the float's range.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;  // undefined value, like a built-in number
  LATHE_HD constexpr explicit BFloat16(float value)
      : bits(half_detail::bfloat16_from_float(value)) {}
  LATHE_HD constexpr explicit BFloat16(double value) : BFloat16(half_detail::float_to_odd(value)) {}
  template <std::integral T>
  LATHE_HD constexpr explicit BFloat16(T value) : BFloat16(half_detail::double_to_odd(value)) {}

  LATHE_HD static constexpr BFloat16 from_bits(uint16_t pattern) {
    BFloat16 result(0.0f);
    result.bits = pattern;
    return result;
  }

  LATHE_HD constexpr operator float() const { return half_detail::float_from_bfloat16(bits); }
  LATHE_HD constexpr BFloat16& operator+=(float b) { return *this = BFloat16(float{*this} + b); }
  LATHE_HD constexpr BFloat16& operator-=(float b) { return *this = BFloat16(float{*this} - b); }
  LATHE_HD constexpr BFloat16& operator*=(float b) { return *this = BFloat16(float{*this} * b); }
  LATHE_HD constexpr BFloat16& operator/=(float b) { return *this = BFloat16(float{*this} / b); }
};

/// to[i] = from[i] for i < n, rounded to nearest even; the arrays must not overlap.
LATHE_API void convert(Half* to, const float* from, int64_t n);
LATHE_API void convert(float* to, const Half* from, int64_t n);
LATHE_API void convert(BFloat16* to, const float* from, int64_t n);
LATHE_API void convert(float* to, const BFloat16* from, int64_t n);

}  // namespace lathe

template <>
class std::numeric_limits<lathe::Half> : public std::numeric_limits<float> {
  using Half = lathe::Half;

 public:
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5;
  static constexpr int min_exponent = -13, min_exponent10 = -4;
  static constexpr int max_exponent = 16, max_exponent10 = 4;
  static constexpr bool is_iec559 = false;  // the format is IEEE's, the arithmetic is float's
  static constexpr Half min() noexcept { return Half::from_bits(0x0400); }
  static constexpr Half max() noexcept { return Half::from_bits(0x7bff); }
  static constexpr Half lowest() noexcept { return Half::from_bits(0xfbff); }
  static constexpr Half epsilon() noexcept { return Half::from_bits(0x1400); }
  static constexpr Half round_error() noexcept { return Half::from_bits(0x3800); }
  static constexpr Half infinity() noexcept { return Half::from_bits(0x7c00); }
  static constexpr Half quiet_NaN() noexcept { return Half::from_bits(0x7fff); }
  static constexpr Half signaling_NaN() noexcept { return Half::from_bits(0x7d00); }
  static constexpr Half denorm_min() noexcept { return Half::from_bits(0x0001); }
};

template <>
class std::numeric_limits<lathe::BFloat16> : public std::numeric_limits<float> {
  using BFloat16 = lathe::BFloat16;

 public:
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4;
  static constexpr bool is_iec559 = false;
  static constexpr BFloat16 min() noexcept { return BFloat16::from_bits(0x0080); }
  static constexpr BFloat16 max() noexcept { return BFloat16::from_bits(0x7f7f); }
  static constexpr BFloat16 lowest() noexcept { return BFloat16::from_bits(0xff7f); }
  static constexpr BFloat16 epsilon() noexcept { return BFloat16::from_bits(0x3c00); }
  static constexpr BFloat16 round_error() noexcept { return BFloat16::from_bits(0x3f00); }
  static constexpr BFloat16 infinity() noexcept { return BFloat16::from_bits(0x7f80); }
  static constexpr BFloat16 quiet_NaN() noexcept { return BFloat16::from_bits(0x7fff); }
  static constexpr BFloat16 signaling_NaN() noexcept { return BFloat16::from_bits(0x7fa0); }
  static constexpr BFloat16 denorm_min() noexcept { return BFloat16::from_bits(0x0001); }
};

template <>
class std::numeric_limits<const lathe::Half> : public std::numeric_limits<lathe::Half> {};
template <>
class std::numeric_limits<const lathe::BFloat16> : public std::numeric_limits<lathe::BFloat16> {};
