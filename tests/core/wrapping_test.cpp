#include "lathe/core/text/wrapping.h"
#include "lathe/core/text/terminal.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <sstream>
#include <vector>

using namespace lathe;

namespace {

constexpr const char* kLine =
    "resnet8 on fashion-mnist: 75290 parameters, 60000 training images, 2814 steps of 128 on cpu, "
    "runs/fashion-mnist-resnet8-2026-11-23-1/metrics.jsonl – 100 % of the images were café";

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("wrapping: no line is wider than the terminal, no word is broken, none is lost") {
  for (int width = 55; width <= 200; ++width) {  // the path and the indentation have 55
    CAPTURE(width);
    const std::string text = wrapped(kLine, width);
    CHECK(words_of(text) == words_of(kLine));
    std::istringstream lines(text);
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CAPTURE(line);
      CHECK(columns_of(line) <= static_cast<size_t>(width));
      CHECK((line.starts_with("  ") == (count > 0)));
      CHECK_FALSE(line.ends_with(' '));
    }
    CHECK(count <= columns_of(kLine) / static_cast<size_t>(width - 20) + 2);  // lines are filled
  }
}

TEST_CASE("wrapping: a line that fits, a pipe and a tiny terminal get it as it is") {
  CHECK(wrapped("two words", 80) == "two words");
  CHECK(wrapped("twenty columns, full", 20) == "twenty columns, full");
  CHECK(wrapped("twenty-one columns ...", 21) == "twenty-one columns\n  ...");
  CHECK(wrapped("  image 12: cat taken", 20) == "  image 12: cat\n    taken");
  CHECK(wrapped(kLine, 0) == kLine);
  CHECK(wrapped(kLine, 19) == kLine);
  for (int width = 20; width < 60;
       ++width) {  // a number and its unit stay together, also at a double space
    CAPTURE(width);
    const std::string text =
        wrapped("image.jpg: cat 98.50 %, dog 1.25 %  epoch 12  saved best 40.00 %", width);
    CHECK(text.find("\n  %") == std::string::npos);
    CHECK(text.find("\n   ") == std::string::npos);
  }
  for (const char* unit : {"ms", "img/s", "MiB", "GFLOP/s"}) {
    const std::string line = std::string("takes about 12.5 ") + unit + ", it says";
    for (int width = 20; width < 36; ++width)
      CHECK(wrapped(line, width).find(std::string("12.5 ") + unit) != std::string::npos);
  }
  CHECK(wrapped("epoch 1/6  train 0.51  saved best", 22) == "epoch 1/6  train 0.51\n  saved best");
}

TEST_CASE("wrapping: rows of tables go on under their second column if there is room") {
  const std::string rows = "compiler     GNU 12.2.0 with all of its flags\nmodel\n\n  cpu      yes";
  CHECK(wrapped_rows(rows, 0) == rows);
  CHECK(wrapped_rows(rows, 60) == rows);
  CHECK(wrapped_rows(rows, 40) ==
        "compiler     GNU 12.2.0 with all of its\n             flags\nmodel\n\n  cpu      yes");
  CHECK(wrapped_rows(rows, 30) ==  // the second column is not in the first third
        "compiler     GNU 12.2.0 with\n  all of its flags\nmodel\n\n  cpu      yes");
  CHECK(wrapped_rows("", 30).empty());
  for (int width = 40; width < 130; ++width) {
    const std::string row = "layer1.0.conv1.weight                 f32[64,3,7,7]      37632  a1b2";
    const std::string text = wrapped_rows(row + "\n" + kLine, width);
    CHECK(words_of(text) == words_of(row + "\n" + kLine));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK((columns_of(line) <= static_cast<size_t>(width) || words_of(line).size() == 1));
    }
  }
}

TEST_CASE("wrapping: a file is no terminal, and neither is a closed descriptor") {
  const int file = open("/dev/null", O_RDONLY);
  REQUIRE(file >= 0);
  CHECK(terminal_width(file) == 0);
  close(file);
  CHECK(terminal_width(-1) == 0);
}
