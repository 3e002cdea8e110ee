// Half and BFloat16, every pattern: against decoding by ldexp, the compiler's _Float16 and rounding
// by search.
#include "lathe/core/half.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "lathe/core/format.h"

namespace lathe {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// What a pattern means, from the definition of the format.
double decode(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * double{kInf} : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// Nearest, ties to even, found by bisection over the positive patterns: no arithmetic in common
// with the code.
uint16_t round_by_search(double value, uint16_t infinity, int exponent_bits, int mantissa_bits) {
  if (std::isnan(value)) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  // Infinity stands where the next finite number would be.
  const auto at = [&](int pattern) {
    return pattern < infinity ? decode(static_cast<uint16_t>(pattern), exponent_bits, mantissa_bits)
                              : std::ldexp(1.0, 1 << (exponent_bits - 1));
  };
  if (magnitude >= at(infinity)) return sign | infinity;
  int low = 0, high = infinity;  // at(low) <= magnitude < at(high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - at(low), above = at(high) - magnitude;
  const int nearest = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<uint16_t>(sign | nearest);
}
uint16_t half_by_search(double value) { return round_by_search(value, 0x7c00, 5, 10); }
uint16_t bfloat16_by_search(double value) { return round_by_search(value, 0x7f80, 8, 7); }

TEST_CASE("Half: every pattern decodes by the definition and comes back") {
  for (uint32_t p = 0; p <= 0xffff; ++p) {
    const Half half = Half::from_bits(static_cast<uint16_t>(p));
    const double want = decode(half.bits, 5, 10);
    if (std::isnan(want)) {
      REQUIRE(bits_of(half) == 0x7fffffffu);
      REQUIRE(Half(float{half}).bits == 0x7fff);
    } else {
      REQUIRE(double{half} == want);
      REQUIRE(std::signbit(float{half}) == (p >= 0x8000));
      REQUIRE(Half(float{half}).bits == p);
      REQUIRE(Half(double{half}).bits == p);
    }
  }
}

TEST_CASE("BFloat16: every pattern decodes by the definition and comes back") {
  for (uint32_t p = 0; p <= 0xffff; ++p) {
    const BFloat16 value = BFloat16::from_bits(static_cast<uint16_t>(p));
    const double want = decode(value.bits, 8, 7);
    REQUIRE(bits_of(value) == p << 16);
    if (std::isnan(want)) {
      REQUIRE(BFloat16(float{value}).bits == 0x7fff);
    } else {
      REQUIRE(double{value} == want);
      REQUIRE(BFloat16(float{value}).bits == p);
      REQUIRE(BFloat16(double{value}).bits == p);
    }
  }
}

TEST_CASE("Half: the documented edges") {
  CHECK(float{Half(65519.0f)} == 65504.0f);
  CHECK(float{Half(65520.0f)} == kInf);
  CHECK(float{Half(-65520.0f)} == -kInf);
  CHECK(Half(0x1p-25f).bits == 0);
  CHECK(Half(std::nextafter(0x1p-25f, 1.0f)).bits == 1);
  CHECK(Half(0x1.8p-24f).bits == 2);  // a tie between 1 and 2: even
  CHECK(Half(-0.0f).bits == 0x8000);
  CHECK(Half(-std::numeric_limits<float>::quiet_NaN()).bits == 0x7fff);
  CHECK(BFloat16(-std::numeric_limits<float>::quiet_NaN()).bits == 0x7fff);
  CHECK(BFloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(BFloat16(1.00390625f).bits == 0x3f80);  // 1 + 2^-8, a tie: even
}

// Both neighbours of every rounding boundary, the boundary itself, and random patterns.
std::vector<float> awkward_floats() {
  std::vector<float> values;
  for (uint32_t p = 0; p < 0x7c00; ++p) {
    const double low = decode(static_cast<uint16_t>(p), 5, 10);
    const double high = p == 0x7bff ? 65536.0 : decode(static_cast<uint16_t>(p + 1), 5, 10);
    const float tie = static_cast<float>((low + high) / 2);
    for (const float v : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  for (uint32_t p = 0; p <= 0xffff; ++p) {
    for (const uint32_t low : {0x7fffu, 0x8000u, 0x8001u})
      values.push_back(float_of(p << 16 | low));
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) values.push_back(float_of(random()));
  return values;
}

TEST_CASE("half types: float -> half rounds like a search for the nearest") {
  for (const float v : awkward_floats()) {
    if (Half(v).bits != half_by_search(v)) FAIL("half of ", bits_of(v));
    if (BFloat16(v).bits != bfloat16_by_search(v)) FAIL("bfloat16 of ", bits_of(v));
  }
}

#if defined(__FLT16_MAX__)
TEST_CASE("Half: float -> half agrees with the compiler's _Float16") {
  // Every float whose bits below the rounding position are one of the patterns that decide a
  // rounding.
  uint64_t wrong = 0;
  for (uint32_t high = 0; high < (1u << 20); ++high) {
    for (const uint32_t low : {0x000u, 0x001u, 0x7ffu, 0x800u, 0xfffu}) {
      const float v = float_of(high << 12 | low);
      const Half ours(v);
      if (std::isnan(v)) {
        wrong += ours.bits != 0x7fff;
      } else {
        wrong += ours.bits != std::bit_cast<uint16_t>(static_cast<_Float16>(v));
      }
    }
  }
  CHECK(wrong == 0);
}
#endif

TEST_CASE("half types: doubles and integers are rounded once") {
  // 1 + 2^-11 + 2^-40: through float it becomes a tie and would go down.
  CHECK(Half(1.0 + 0x1p-11 + 0x1p-40).bits == 0x3c01);
  CHECK(BFloat16(1.0 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(Half(0x1p-25 + 0x1p-70).bits == 1);
  CHECK(Half(1e-300).bits == 0);
  CHECK(Half(-1e300).bits == 0xfc00);
  CHECK(BFloat16(1e300).bits == 0x7f80);
  CHECK(Half(std::nan("")).bits == 0x7fff);
  CHECK(float{Half(2049)} == 2048.0f);
  CHECK(float{Half(-2051)} == -2052.0f);
  CHECK(float{Half(true)} == 1.0f);
  CHECK(float{Half(int64_t{-70000})} == -kInf);
  const int64_t above_tie =
      (int64_t{1} << 62) + (int64_t{1} << 54) + 1;  // rounds up only if the 1 is seen
  CHECK(double{BFloat16(above_tie)} == 0x1p62 + 0x1p55);
  CHECK(double{BFloat16(above_tie - 1)} == 0x1p62);
  CHECK(double{BFloat16(std::numeric_limits<int64_t>::min())} == -0x1p63);
  CHECK(double{BFloat16(std::numeric_limits<uint64_t>::max())} == 0x1p64);

  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = random();
    const double wide = std::bit_cast<double>(bits);
    const double near_half = std::ldexp(1.0 + std::ldexp(static_cast<double>(bits >> 12), -52),
                                        static_cast<int>(bits % 45) - 28);
    for (const double v : {wide, near_half}) {
      if (Half(v).bits != half_by_search(v)) FAIL("half of ", v);
      if (BFloat16(v).bits != bfloat16_by_search(v)) FAIL("bfloat16 of ", v);
    }
  }
}

TEST_CASE("half types: arrays convert like single values") {
  const std::vector<float> values = awkward_floats();
  const auto n = static_cast<int64_t>(values.size());
  std::vector<Half> halves(values.size());
  std::vector<BFloat16> bfloats(values.size());
  std::vector<float> back(values.size());
  convert(halves.data(), values.data(), n);
  convert(bfloats.data(), values.data(), n);
  for (size_t i = 0; i < values.size(); ++i) {
    if (halves[i].bits != Half(values[i]).bits) FAIL("half ", i);
    if (bfloats[i].bits != BFloat16(values[i]).bits) FAIL("bfloat16 ", i);
  }
  convert(back.data(), halves.data(), n);
  for (size_t i = 0; i < values.size(); ++i) {
    if (bits_of(back[i]) != bits_of(halves[i])) FAIL("float of half ", i);
  }
  convert(back.data(), bfloats.data(), n);
  for (size_t i = 0; i < values.size(); ++i) {
    if (bits_of(back[i]) != bits_of(bfloats[i])) FAIL("float of bfloat16 ", i);
  }
  convert(halves.data(), values.data(), 0);  // nothing to do is fine
}

TEST_CASE("half types: arithmetic is float's, assignment rounds") {
  static_assert(std::is_same_v<decltype(Half(1) + Half(1)), float>);
  static_assert(std::is_trivially_copyable_v<Half> && sizeof(Half) == 2);
  static_assert(std::is_trivially_default_constructible_v<BFloat16> && sizeof(BFloat16) == 2);
  static_assert(!std::is_convertible_v<float, Half> && std::is_convertible_v<Half, float>);
  static_assert(Half(1.5f) * Half(2) == 3.0f);
  static_assert(Half(0.1f).bits == 0x2e66 && BFloat16(0.1f).bits == 0x3dcd);
  Half sum(2048);
  sum += 1.0f;
  CHECK(float{sum} == 2048.0f);
  sum += 3.0f;
  CHECK(float{sum} == 2052.0f);
  BFloat16 product(3);
  product *= 0.5f;
  CHECK(float{product} == 1.5f);
  CHECK(concat(Half(0.5f), " ", BFloat16(-2)) == "0.5 -2");
}

template <class T>
void check_limits() {
  using Limits = std::numeric_limits<T>;
  static_assert(Limits::is_specialized && Limits::has_infinity && !Limits::is_integer);
  CHECK(float{Limits::max()} ==
        std::ldexp(1.0f - std::ldexp(1.0f, -Limits::digits), Limits::max_exponent - 1) * 2.0f);
  CHECK(float{Limits::lowest()} == -float{Limits::max()});
  CHECK(float{Limits::min()} == std::ldexp(1.0f, Limits::min_exponent - 1));
  CHECK(float{Limits::epsilon()} == std::ldexp(1.0f, 1 - Limits::digits));
  CHECK(float{Limits::denorm_min()} == std::ldexp(float{Limits::min()}, 1 - Limits::digits));
  CHECK(float{Limits::round_error()} == 0.5f);
  CHECK(float{Limits::infinity()} == kInf);
  CHECK(std::isnan(float{Limits::quiet_NaN()}));
  CHECK(std::isnan(float{Limits::signaling_NaN()}));
}
TEST_CASE("half types: numeric_limits describe the formats") {
  check_limits<Half>();
  check_limits<BFloat16>();
}

}  // namespace
}  // namespace lathe
