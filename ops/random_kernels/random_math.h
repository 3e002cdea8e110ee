// From the bits of one Philox counter to values: the arithmetic of ops/random.h, shared by the CPU
// loop and the CUDA kernel: one functor per distribution, and visit_random(), the table of all. A
// functor turns one counter into kValues values: element i of a random tensor is value i % kValues
// of counter start.offset + i / kValues.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/visit.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/random.h"

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

  explicit UniformValues(const UniformDraw& d)
      : low(static_cast<C>(d.low)),
        span(static_cast<C>(d.high - d.low)),
        high(static_cast<C>(d.high)) {}
  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    for (int i = 0; i < kValues; ++i) {
      const T value = T(low + span * uniform_as<T>(bits.v[i]));
      // Rounding may reach `high`, which is excluded; `low` takes its place.
      values[i] = ((C(value) >= high) & (span > C(0))) ? T(low) : value;
    }
  }
};

/// The sine and the cosine of a part of a turn.
struct SineCosine {
  float sine, cosine;
};

/// sin and cos of 2 pi * the upper 24 bits * 2^-24, each to 2 ulp. The nearest quarter turn is
/// taken off exactly. Polynomials that interpolate at the points of Chebyshev give sine and cosine
/// of the rest, which is x quarter turns with |x| <= 1/2; pi / 2 is split in two.
[[gnu::always_inline]] LATHE_HD inline SineCosine sine_cosine_from_bits(uint32_t bits) {
  const uint32_t turn = bits >> 8, quarter = (turn + (1u << 21)) >> 22;
  const float x = static_cast<float>(static_cast<int32_t>(turn - (quarter << 22))) * 0x1p-22f;
  const float z = x * x;
  float s = -4.62196673e-3f;
  s = s * z + 7.96870312e-2f;
  s = s * z - 6.45964020e-1f;
  s = x * 1.57079637f + x * (z * s - 4.37113883e-8f);
  float c = 9.06739898e-4f;
  c = c * z - 2.08615283e-2f;
  c = c * z + 2.53669410e-1f;
  c = c * z - 1.23370055f;
  c = 1.0f + z * c;
  const uint32_t swapped = quarter & 1;
  const uint32_t sine = __builtin_bit_cast(uint32_t, swapped ? c : s);
  const uint32_t cosine = __builtin_bit_cast(uint32_t, swapped ? s : c);
  return {__builtin_bit_cast(float, sine ^ (quarter & 2) << 30),
          __builtin_bit_cast(float, cosine ^ ((quarter + 1) & 2) << 30)};
}

/// Two independent standard normal numbers.
struct NormalPair {
  float first, second;
};

/// Box-Muller, each number to 4 ulp. The logarithm's argument is 1 - u in (0, 1], so the result is
/// finite: |normal| <= sqrt(48 ln 2) = 5.77. It has the same bits on every processor and on a GPU.
[[gnu::always_inline]] LATHE_HD inline NormalPair normals_from_bits(uint32_t bits0,
                                                                    uint32_t bits1) {
  const float radius = std::sqrt(-2.0f * fast_log(1.0f - uniform_from_bits(bits0)));
  const SineCosine angle = sine_cosine_from_bits(bits1);
  return {radius * angle.cosine, radius * angle.sine};
}

/// mean + std * a standard normal number. Words 0 and 1 give values 0 and 1, words 2 and 3 give
/// values 2 and 3.
template <class T>
struct NormalValues {
  using C = ComputeType<T>;
  static constexpr int kValues = 4;
  C mean, std;

  explicit NormalValues(const NormalDraw& d)
      : mean(static_cast<C>(d.mean)), std(static_cast<C>(d.std)) {}
  LATHE_HD void operator()(const Philox4x32& bits, T* values) const {
    for (int i = 0; i < kValues; i += 2) {
      const NormalPair normals = normals_from_bits(bits.v[i], bits.v[i + 1]);
      values[i] = T(mean + std * C(normals.first));
      values[i + 1] = T(mean + std * C(normals.second));
    }
  }
};

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

/// Like the struct above, for wide spans: 64 bits for each value.
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

/// Calls run(TypeTag<T>, make): `make` is the functor that draws values of type T.
/// throws: DTypeError for a dtype that has no such values.
template <class Run>
void visit_random(const RandomDraw& draw, DType dtype, const Run& run) {
  if (const auto* uniform = std::get_if<UniformDraw>(&draw)) {
    visit_float(dtype, "uniform",
                [&]<class T>(TypeTag<T> type) { run(type, UniformValues<T>(*uniform)); });
  } else if (const auto* normal = std::get_if<NormalDraw>(&draw)) {
    visit_float(dtype, "normal",
                [&]<class T>(TypeTag<T> type) { run(type, NormalValues<T>(*normal)); });
  } else {
    const auto& d = std::get<IntegerDraw>(draw);
    visit_number(dtype, "randint", [&]<class T>(TypeTag<T> type) {
      if (is_wide_span(d.span)) return run(type, WideIntegerValues<T>{d.low, d.span});
      run(type, IntegerValues<T>{d.low, d.span});
    });
  }
}

}  // namespace lathe::math
