// Overflow-checked sizes: agreement with 128-bit arithmetic, and the sticky mark.
#include "lathe/core/checked_size.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace lathe {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
__extension__ using Wide = __int128;

void check_same(CheckedSize got, Wide want) {
  const bool fits = want >= kMin && want <= kMax;
  CHECK(got.overflowed() == !fits);
  if (fits) CHECK(got.value_or_throw() == static_cast<int64_t>(want));
}

TEST_CASE("CheckedSize: + - * agree with 128-bit arithmetic at the edges") {
  const int64_t values[] = {
      0,    1,    -1,       2,        3,        -7,       1 << 20,    int64_t{1} << 31,
      kMax, kMin, kMax - 1, kMin + 1, kMax / 2, kMax / 3, 3037000499, 3037000500};
  for (const int64_t a : values) {
    for (const int64_t b : values) {
      CAPTURE(a);
      CAPTURE(b);
      check_same(CheckedSize(a) + b, Wide{a} + b);
      check_same(CheckedSize(a) - b, Wide{a} - b);
      check_same(CheckedSize(a) * b, Wide{a} * b);
    }
  }
}

TEST_CASE("CheckedSize: an unsigned number beyond int64 counts as overflow") {
  CHECK(CheckedSize(std::numeric_limits<uint64_t>::max()).overflowed());
  CHECK(CheckedSize(uint64_t{1} << 63).overflowed());
  CHECK_FALSE(CheckedSize((uint64_t{1} << 63) - 1).overflowed());
}

TEST_CASE("CheckedSize: the mark is sticky") {
  CheckedSize size = CheckedSize(kMax) * 2;
  size *= 0;
  CHECK(size.overflowed());
  CHECK((CheckedSize(1) + size).overflowed());
  CHECK((CheckedSize(1) * size).overflowed());
  CHECK((CheckedSize(1) - size).overflowed());
}

TEST_CASE("CheckedSize: value_or_throw throws the chosen type with the given text") {
  const CheckedSize size = CheckedSize(kMax) + 1;
  CHECK_THROWS_WITH_AS(size.value_or_throw<ShapeError>("empty: ", 3, " dims do not fit"),
                       "empty: 3 dims do not fit", ShapeError);
  CHECK_THROWS_AS(size.value_or_throw("too large"), ValueError);
}

TEST_CASE("CheckedSize: works in constant expressions") {
  static_assert((CheckedSize(3) * 4 + 5).value_or_throw() == 17);
  static_assert((CheckedSize(kMax) + 1).overflowed());
}

}  // namespace
}  // namespace lathe
