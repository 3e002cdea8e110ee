#include "lathe/train/row.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace lathe::train;

TEST_CASE("row: JSON keeps order, digits and types; what JSON lacks is null") {
  const Row row = Row()
                      .add("z", 1)
                      .add("a", 0.1)
                      .add("ok", true)
                      .add("s", "a\"b\n\xff")
                      .add("n", NAN)
                      .add("i", INFINITY);
  CHECK(to_json(row) ==
        "{\"z\":1,\"a\":0.1,\"ok\":true,\"s\":\"a\\\"b\\n\xEF\xBF\xBD\",\"n\":null,\"i\":null}");
  CHECK(to_json(Row()) == "{}");
  CHECK(to_json(Row().add("a", int64_t{1} << 62), 1) == "{\n \"a\": 4611686018427387904\n}");
}

TEST_CASE("row: CSV quotes what needs it") {
  const Row row =
      Row().add("a", 1).add("b,c", "x,\"y\"").add("d", 1.0 / 3).add("e", NAN).add("f", false);
  CHECK(csv_header(row) == "a,\"b,c\",d,e,f");
  CHECK(csv_line(row) == "1,\"x,\"\"y\"\"\",0.3333333333333333,,false");
}

TEST_CASE("row: CSV has no text that a spreadsheet computes or a terminal obeys") {
  for (const char first : std::string("=+-@")) {
    const std::string text = first + std::string("1+1");
    CHECK(csv_line(Row().add("a", text)) == "'" + text);
    CHECK(csv_header(Row().add(text, 1)) == "'" + text);
  }
  CHECK(csv_line(Row().add("a", "=A1,\"x\"")) == "\"'=A1,\"\"x\"\"\"");
  CHECK(csv_line(Row().add("a", "a=b")) == "a=b");
  CHECK(csv_line(Row().add("a", -1).add("b", -0.5)) == "-1,-0.5");  // numbers
  CHECK(csv_line(Row().add("a", "\t=1").add("b", "\r=1")) == "\\t=1,\\r=1");
  CHECK(csv_line(Row().add("a", "\x1b[31m\u202e")) == "\\x1b[31m\\u202e");
  CHECK(csv_line(Row().add("a", "two\nlines")) == "\"two\nlines\"");
}
