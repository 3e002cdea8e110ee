#include "lathe/tools/cli/parse_value.h"

#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <limits>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

using namespace lathe;
using namespace lathe::cli;

TEST_CASE("parse_integer: whole numbers only, inside the range") {
  CHECK(parse_integer("--n", "-3", -5, 5) == -3);
  CHECK(parse_integer("--n", "9223372036854775807", 0, INT64_MAX) == INT64_MAX);
  for (const char* bad : {"", " 1", "1 ", "1.0", "1e3", "+1", "0x10", "ten", "1,000", "nan"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_integer("--n", bad, 0, 10),
                         doctest::Contains("--n: expected a whole number"), UsageError);
  }
  CHECK_THROWS_WITH_AS(parse_integer("--n", "9223372036854775808", 0, 10),
                       "--n: 9223372036854775808 is out of range", UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("--n", "11", 0, 10), "--n: expected 0 to 10, got 11",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("--n", "0", 1, INT64_MAX), "--n: expected 1 or more, got 0",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("--n", "2", 6, 6), "--n: expected 6, got 2", UsageError);
  CHECK_THROWS_WITH_AS(parse_number("--x", "2", 0.5, 0.5), "--x: expected 0.5, got 2", UsageError);
}

TEST_CASE("parse_number: whole, finite, whatever the locale") {
  CHECK(parse_number("--lr", "0.1", 0, 1) == 0.1);
  CHECK(parse_number("--lr", "1e-3", 0, 1) == 1e-3);
  CHECK(parse_number("--lr", ".5", 0, 1) == 0.5);
  for (const char* bad : {"nan", "-nan", "inf", "-inf", "infinity", "NaN"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_number("--lr", bad, -HUGE_VAL, HUGE_VAL), UsageError);
  }
  for (const char* bad : {"", "0,1", "0.1x", "0.1 ", "0x1p3", "1e", "one"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_number("--lr", bad, 0, 1),
                         doctest::Contains("--lr: expected a number"), UsageError);
  }
  CHECK_THROWS_WITH_AS(parse_number("--lr", "1e999", 0, 1), "--lr: 1e999 is out of range",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_number("--lr", "-1", 0, HUGE_VAL), "--lr: expected 0 or more, got -1",
                       UsageError);
  if (std::setlocale(LC_NUMERIC, "de_DE.UTF-8")) CHECK(parse_number("--lr", "0.25", 0, 1) == 0.25);
  std::setlocale(LC_NUMERIC, "C");
}

TEST_CASE("number_text: a NaN has no sign") {
  CHECK(number_text(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(number_text(std::copysign(std::nan(""), -1.0)) == "nan");
  CHECK_FALSE(std::signbit(without_sign_of_nan(std::copysign(std::nan(""), -1.0))));
  CHECK(std::signbit(without_sign_of_nan(-0.0)));
}

TEST_CASE("number_text: reads back as the same number") {
  for (const double value : {0.1, 1.0 / 3, 5e-4, 1e300, 123456789.0, 0.0}) {
    CHECK(parse_number("x", number_text(value), 0, HUGE_VAL) == value);
  }
}

TEST_CASE("parse_switch: the usual words") {
  CHECK(parse_switch("--json", "true"));
  CHECK(parse_switch("--json", "1"));
  CHECK_FALSE(parse_switch("--json", "off"));
  CHECK_THROWS_WITH_AS(parse_switch("--json", "maybe"),
                       "--json: expected true or false, got \"maybe\"", UsageError);
}

TEST_CASE("split_list: commas, spaces around the parts") {
  CHECK(split_list("").empty());
  CHECK(split_list("crop") == std::vector<std::string>{"crop"});
  CHECK(split_list(" 80, 120 ") == std::vector<std::string>{"80", "120"});
  CHECK(split_list("a,,b") == std::vector<std::string>{"a", "", "b"});
}
