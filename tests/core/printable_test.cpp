// Text for people: what is spelled out, and what stays as it is.
#include "lathe/core/printable.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/range_text.h"

namespace lathe {
namespace {

TEST_CASE("printable: nothing that commands a terminal stays, and all else does") {
  const struct {
    std::string text, shown;
  } cases[] = {
      {"", ""},
      {"conv1.weight \\n \"ü€𝄞\"", "conv1.weight \\n \"ü€𝄞\""},
      {"a\nb\rc\td", "a\\nb\\rc\\td"},
      {std::string("\0\x1b[31m\x07\x1f", 8), "\\x00\\x1b[31m\\x07\\x1f"},
      {"\x7f", "\\u007f"},
      {"\u0080\u009b31m\u009f\u00a0", "\\u0080\\u009b31m\\u009f\u00a0"},
      {"\u061c\u200e\u200f\u2028\u2029", "\\u061c\\u200e\\u200f\\u2028\\u2029"},
      {"\u202a\u202e\u2066\u2069", "\\u202a\\u202e\\u2066\\u2069"},
      {"\u2027\u202f\u2065\u206a", "\u2027\u202f\u2065\u206a"},
      {"\x9b"
       "31m",
       "\\x9b31m"},           // no UTF-8, but a command where a terminal reads bytes
      {"ab\xc3", "ab\\xc3"},  // cut off
      {"\xc0\x8a\xed\xa0\x80\xff", "\\xc0\\x8a\\xed\\xa0\\x80\\xff"},  // overlong, a surrogate
  };
  for (const auto& [text, shown] : cases) {
    CAPTURE(shown);
    CHECK(printable(text) == shown);
    CHECK(printable(shown) == shown);  // what was spelled out is plain text
  }
}

TEST_CASE("printable: every byte and every pair of bytes gives one line of shown characters") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      for (const char c : printable(text)) {
        const auto byte = static_cast<unsigned char>(c);
        CHECK_MESSAGE((byte >= 0x20 && byte != 0x7f), first, " ", second);
      }
      CHECK(printable(text).find("\xc2\x9b") == std::string::npos);
    }
  }
}

TEST_CASE("printable_lines: line ends stay, and nothing else more") {
  CHECK(printable_lines("a\n\n\tb\r\n\x1b") == "a\n\n\\tb\\r\n\\x1b");
}

TEST_CASE("range_text: one value where both ends are the same") {
  CHECK(range_text(0, 9) == "0 to 9");
  CHECK(range_text(6, 6) == "6");
  CHECK(range_text(0.5, 1.0) == "0.5 to 1");
}

}  // namespace
}  // namespace lathe
