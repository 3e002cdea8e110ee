#include "lathe/core/json_members.h"

#include <doctest/doctest.h>

namespace lathe {
namespace {

TEST_CASE("doubled_member: the first name that an object has twice") {
  for (const char* none : {R"({"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]})", "[1,1]", "{}", "", "{"})
    CHECK(doubled_member(none) == std::nullopt);
  CHECK(doubled_member(R"({"x":[{"b":1,"b":2}],"x":3})") == "b");
  CHECK(doubled_member(R"({"a":1,"b":{},"a":2})") == "a");
  CHECK(doubled_member(R"({"a":1,"\u0061":2})") == "a");
  CHECK(doubled_member(R"({"":1,"":2})") == "");
}

}  // namespace
}  // namespace lathe
