// How a register's bits are read as a value, and how an operation goes over a warp's lanes.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "program.h"

namespace lathe::ptx {

template <class T>
T as(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

/// A signed integer is extended, so that it is right in a wider register too.
template <class T>
uint64_t bits_of(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

/// The result of an f32 operation: the one NaN that the GPU has.
inline float result(float value) {
  return value != value ? std::bit_cast<float>(uint32_t{0x7fffffff}) : value;
}
inline double result(double value) { return value; }

/// .ftz: subnormal numbers are zeros of their sign.
inline float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}
inline double flush(double value) { return value; }

template <class F>
void each(uint32_t lanes, F f) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
  } else {
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) f(std::countr_zero(rest));
  }
}

}  // namespace lathe::ptx
