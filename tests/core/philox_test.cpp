// Philox against the published known answers; uniforms and normals at their edges and in
// distribution.
#include "lathe/core/random/philox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lathe {
namespace {

TEST_CASE("philox4x32_10: the known answers of Random123 (kat_vectors)") {
  struct Row {
    uint64_t key, lo, hi;
    uint32_t want[4];
  };
  const uint64_t ones = ~uint64_t{0};
  const Row rows[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {ones, ones, ones, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: digits of pi
      {0x299f31d0a4093822,
       0x85a308d3243f6a88,
       0x0370734413198a2e,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : rows) {
    const Philox4x32 got = philox4x32_10(row.key, row.lo, row.hi);
    for (int i = 0; i < 4; ++i) CHECK(got.v[i] == row.want[i]);
  }
  static_assert(philox4x32_10(0, 0, 0).v[0] == 0x6627e8d5);
}

TEST_CASE("uniform_from_bits: [0, 1), 24 bits, exact") {
  CHECK(uniform_from_bits(0) == 0.0f);
  CHECK(uniform_from_bits(0xff) == 0.0f);
  CHECK(uniform_from_bits(0x100) == 0x1p-24f);
  CHECK(uniform_from_bits(0x80000000u) == 0.5f);
  CHECK(uniform_from_bits(0xffffffffu) == 1.0f - 0x1p-24f);
}

TEST_CASE("normals_from_bits: finite for the extreme bits") {
  const uint32_t edges[] = {0, 0xff, 0x100, 0x7fffffffu, 0x80000000u, 0xfffffeffu, 0xffffffffu};
  for (const uint32_t a : edges) {
    for (const uint32_t b : edges) {
      const NormalPair pair = normals_from_bits(a, b);
      CHECK(std::isfinite(pair.first));
      CHECK(std::isfinite(pair.second));
      CHECK(std::hypot(pair.first, pair.second) <= 5.7683f);
    }
  }
  CHECK(normals_from_bits(0, 0x12345678u).first == 0.0f);
}

TEST_CASE("normals_from_bits: agrees with Box-Muller in double") {
  for (uint64_t i = 0; i < 20000; ++i) {
    const Philox4x32 bits = philox4x32_10(3, i, 0);
    const Normals4 got = normals_from_bits(bits);
    for (int pair = 0; pair < 2; ++pair) {
      const double u = (bits.v[2 * pair] >> 8) * 0x1p-24, v = (bits.v[2 * pair + 1] >> 8) * 0x1p-24;
      const double radius = std::sqrt(-2 * std::log1p(-u));
      // f32 angle: half an ulp of 2*pi in the worst case, 2.4e-7, times the radius
      const double tolerance = 6e-7 * (radius + 1);
      REQUIRE(std::abs(got.v[2 * pair] - radius * std::cos(2 * M_PI * v)) < tolerance);
      REQUIRE(std::abs(got.v[2 * pair + 1] - radius * std::sin(2 * M_PI * v)) < tolerance);
    }
  }
}

// Kolmogorov-Smirnov distance of the sample from a distribution function.
template <class Cdf>
double ks_distance(std::vector<float> sample, Cdf cdf) {
  std::sort(sample.begin(), sample.end());
  const double n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double at = cdf(double{sample[i]}), rank = static_cast<double>(i);
    distance = std::max({distance, at - rank / n, (rank + 1) / n - at});
  }
  return distance;
}

TEST_CASE("philox: uniforms and normals follow their distributions") {
  std::vector<float> uniforms, normals;
  for (uint64_t i = 0; i < 25000; ++i) {
    const Philox4x32 bits = philox4x32_10(7, i, 0);
    for (const uint32_t word : bits.v) uniforms.push_back(uniform_from_bits(word));
    for (const float value : normals_from_bits(bits).v) normals.push_back(value);
  }
  const double limit =
      1.95 / std::sqrt(100000.0);  // p = 0.001; the sample is fixed, so this never flickers
  CHECK(ks_distance(uniforms, [](double x) { return x; }) < limit);
  CHECK(ks_distance(normals, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }) <
        limit);
}

}  // namespace
}  // namespace lathe
