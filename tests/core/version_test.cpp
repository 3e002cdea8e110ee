#include <doctest/doctest.h>

#include <regex>

#include "lathe/lathe.h"

TEST_CASE("version: three numbers") {
  CHECK(std::regex_match(lathe::version(), std::regex(R"(\d+\.\d+\.\d+)")));
}
