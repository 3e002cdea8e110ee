// Rounding up against counting.
#include "lathe/core/ceil_div.h"

#include <doctest/doctest.h>

#include <cstdint>

using namespace lathe;

TEST_CASE("ceil_div and round_up: the fewest pieces that hold a size, and what they fill") {
  for (int64_t size = 0; size < 70; ++size) {
    for (int64_t piece = 1; piece < 20; ++piece) {
      int64_t pieces = 0;
      while (pieces * piece < size) ++pieces;
      CHECK(ceil_div(size, piece) == pieces);
      CHECK(round_up(size, piece) == pieces * piece);
    }
  }
  static_assert(std::is_same_v<decltype(ceil_div(1, int64_t{2})), int64_t>);
  static_assert(ceil_div(int64_t{1} << 40, 3u) == 366503875926);
}
