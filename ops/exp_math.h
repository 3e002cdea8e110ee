// The exponential of the softmax family: a float form without branches or calls, which compilers
// turn into vector code.
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

}  // namespace lathe::math
