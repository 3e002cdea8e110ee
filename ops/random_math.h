// From the bits of one Philox counter to values: the arithmetic of ops/random.h, one functor per
// distribution, shared by the CPU loop and the CUDA kernel. Each turns one counter into kValues
// values: element i of a random tensor is value i % kValues of counter block.offset + i / kValues.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/philox.h"
#include "lathe/core/visit.h"

namespace lathe::math {

/// A uniform number of [0, 1) with as many bits as T holds exactly, 24 at most. More bits would
/// round some numbers up to 1.
template <class T>
LATHE_HD constexpr ComputeType<T> uniform_as(uint32_t bits) {
  if constexpr (sizeof(T) > 2) {
    return static_cast<ComputeType<T>>(uniform_from_bits(bits));
  } else {
    constexpr int kBits = std::numeric_limits<T>::digits;
    return static_cast<float>(bits >> (32 - kBits)) / static_cast<float>(1u << kBits);
  }
}

/// low + (high - low) * uniform: in [low, high).
template <class T>
struct UniformValues {
  using C = ComputeType<T>;
  static constexpr int kValues = 4;
  C low, span, high;

  UniformValues(double from, double to)
      : low(static_cast<C>(from)), span(static_cast<C>(to - from)), high(static_cast<C>(to)) {}
  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    for (int i = 0; i < kValues; ++i) {
      values[i] = T(low + span * uniform_as<T>(bits.v[i]));
      // Rounding may reach `high`, which is excluded; `low` takes its place.
      if (C(values[i]) >= high && span > C(0)) values[i] = T(low);
    }
  }
};

/// mean + std * a standard normal number.
template <class T>
struct NormalValues {
  using C = ComputeType<T>;
  static constexpr int kValues = 4;
  C mean, std;

  NormalValues(double center, double deviation)
      : mean(static_cast<C>(center)), std(static_cast<C>(deviation)) {}
  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    const Normals4 normals = normals_from_bits(bits);
    for (int i = 0; i < kValues; ++i) values[i] = T(mean + std * C(normals.v[i]));
  }
};

/// True for spans that one 32-bit word does not cover: such an integer takes two words.
LATHE_HD constexpr bool is_wide_span(uint64_t span) { return span > UINT32_MAX; }

/// low + bits mod span. The sum wraps, so any range within i64 works.
template <class T>
LATHE_HD constexpr T integer_from_bits(uint64_t bits, int64_t low, uint64_t span) {
  const auto value = static_cast<int64_t>(static_cast<uint64_t>(low) + bits % span);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else {
    return T(static_cast<ComputeType<T>>(value));
  }
}

/// Integers of [low, low + span) for spans that are not wide: one word each.
template <class T>
struct IntegerValues {
  static constexpr int kValues = 4;
  int64_t low;
  uint64_t span;

  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    for (int i = 0; i < kValues; ++i) values[i] = integer_from_bits<T>(bits.v[i], low, span);
  }
};

/// The same for wide spans: 64 bits for each value.
template <class T>
struct WideIntegerValues {
  static constexpr int kValues = 2;
  int64_t low;
  uint64_t span;

  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    for (int i = 0; i < kValues; ++i) {
      const uint64_t word = uint64_t{bits.v[2 * i]} | uint64_t{bits.v[2 * i + 1]} << 32;
      values[i] = integer_from_bits<T>(word, low, span);
    }
  }
};

}  // namespace lathe::math
