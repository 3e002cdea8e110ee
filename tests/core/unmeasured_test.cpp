#include "lathe/core/unmeasured.h"

#include <doctest/doctest.h>

#include "lathe/core/error.h"

using namespace lathe;

TEST_CASE(
    "unmeasured: a list turns its parts on and the others off; a wrong name changes nothing") {
  CHECK(!tries(Unmeasured::kReluBits));
  set_unmeasured("dependent-launch,relu-bits");
  CHECK(tries(Unmeasured::kReluBits));
  CHECK(tries(Unmeasured::kDependentLaunch));
  CHECK_THROWS_WITH_AS(set_unmeasured("relu-bits,relu-bit"),
                       doctest::Contains("no part is named 'relu-bit'; there are relu-bits, "),
                       ValueError);
  CHECK(tries(Unmeasured::kDependentLaunch));
  set_unmeasured("relu-bits");
  CHECK(tries(Unmeasured::kReluBits));
  CHECK(!tries(Unmeasured::kDependentLaunch));
  set_unmeasured("");
  CHECK(!tries(Unmeasured::kReluBits));
  CHECK((name_of(Unmeasured::kDependentLaunch) == "dependent-launch"));
}
