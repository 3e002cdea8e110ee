// Tables that give way to a narrow terminal.
#include "lathe/core/text/text_table.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "lathe/core/text/wrapping.h"

using namespace lathe;

namespace {

std::string text_of(int width) {
  TextTable table({{.heading = "layer", .width = 8, .right = false},
                   {.heading = "n"},
                   {.heading = "pass", .width = 7, .right = false},
                   {.heading = "ms", .width = 5, .rank = 2},
                   {.heading = "rate", .width = 6},
                   {.heading = "engine", .width = 9, .right = false, .rank = 1}},
                  2, width);
  std::string text = table.heading() + "\n";
  text += table.row({"layer1.0", "4", "forward", "1.5", "100.0", "12:3=4"}) + "\n";
  text += table.row({"layer1.0", "4", "input", "12.25", "7.0", ""}) + "\n";
  text += table.row({"caf\u00e9", "1", "forward", "3.0"}) + "\n";
  text += table.sum("all layers of a step", {"16.8", "99.0", ""}) + "\n";
  const std::string remark = table.remark();
  return remark.empty() ? text : text + remark + "\n";
}

}  // namespace

TEST_CASE("table: a file or a wide terminal gets all columns") {
  const std::string expected = R"(layer    n pass       ms   rate engine
layer1.0 4 forward   1.5  100.0 12:3=4
layer1.0 4 input   12.25    7.0
café     1 forward   3.0
all layers of a step 16.8  99.0
)";
  CHECK(text_of(0) == expected);
  CHECK(text_of(41) == expected);
}

TEST_CASE("table: in less room groups have lines of their own, and then columns are left out") {
  CHECK(text_of(40) == R"(layer, n
  pass       ms   rate engine
layer1.0  4
  forward   1.5  100.0 12:3=4
  input   12.25    7.0
café  1
  forward   3.0
all layers of a step 16.8 99.0
)");
  CHECK(text_of(25) == R"(layer, n
  pass       ms   rate
layer1.0  4
  forward   1.5  100.0
  input   12.25    7.0
café  1
  forward   3.0
all layers of a step 16.8 99.0
25 columns have no room for engine; a file or a pipe gets it
)");
  CHECK(text_of(20).find("20 columns have no room for ms, engine; a file or a pipe gets them") !=
        std::string::npos);
  CHECK(text_of(1).find("rate") != std::string::npos);  // the others stay
}

TEST_CASE("table: no row is wider than the terminal while there are columns to leave out") {
  for (int width = 22; width < 50; ++width) {
    std::istringstream lines(text_of(width));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("have no room") != std::string::npos || line.starts_with("all")) continue;
      CHECK_MESSAGE(lathe::columns_of(line) <= static_cast<size_t>(width), line);
      CHECK_FALSE(line.ends_with(' '));
    }
  }
}
