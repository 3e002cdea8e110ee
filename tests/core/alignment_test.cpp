#include "lathe/core/alignment.h"

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("alignment_of: the largest power of two up to 16") {
  const auto at = [](uintptr_t address) {
    return alignment_of(reinterpret_cast<const void*>(address));
  };
  CHECK(at(4096) == 16);
  CHECK(at(4096 + 8) == 8);
  CHECK(at(4096 + 12) == 4);
  CHECK(at(4096 + 6) == 2);
  CHECK(at(4097) == 1);
}
