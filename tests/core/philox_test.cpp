// Philox against the published known answers, and uniforms at their edges. Their distribution is
// tested in tests/ops/random_math_test.cpp.
#include "lathe/core/random/philox.h"

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace lathe
