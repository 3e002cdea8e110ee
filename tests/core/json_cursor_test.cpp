// Texts and numbers of JSON against nlohmann's parser.
#include "lathe/core/formats/json_cursor.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/utf8.h"

namespace lathe {
namespace {

/// The text between quotes; nothing if it is refused.
std::optional<std::string> text_of(const std::string& json) {
  JsonCursor cursor(json, "x");
  std::string unescaped;
  try {
    std::string out(cursor.string(unescaped));
    cursor.expect_end();
    return out;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::optional<std::string> expected_of(const std::string& json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  return parsed.is_string() ? std::optional(parsed.get<std::string>()) : std::nullopt;
}

TEST_CASE("JSON: texts are those of another parser, and so is what is refused") {
  const std::vector<std::string> parts = {"a",
                                          "\"",
                                          "\\\"",
                                          "\\n",
                                          "\\u00e9",
                                          "\\ud83d\\ude00",
                                          "\\ud83d",
                                          "\\ude00",
                                          "\\u12",
                                          "\\x",
                                          "\n",
                                          "\x7f",
                                          "\xc3\xa9",
                                          "\xc3",
                                          "\xc0\x80",
                                          "\xed\xa0\x80",
                                          "\xf0\x9f\x98\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xe0\x80\x80",
                                          "\xff",
                                          "\\",
                                          "\\/"};
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string json = "\"";
    for (auto n = random() % 4; n > 0; --n) json += parts[random() % parts.size()];
    if (random() % 8 != 0) json += '"';
    CAPTURE(json);
    const auto expected = expected_of(json);
    REQUIRE(text_of(json) == expected);
    accepted += expected.has_value();
  }
  CHECK(accepted > 2000);
  CHECK(!text_of(std::string("\"a\0b\"", 5)));  // some take it for the end
  CHECK(!text_of(std::string("\"a\"\0", 4)));
}

TEST_CASE("JSON: UTF-8 of every code point, both ways") {
  for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x11000 ? 1 : 97) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    append_utf8(text, c);
    REQUIRE(utf8_length(text) == text.size());
    REQUIRE(utf8_length(text.substr(0, text.size() - 1)) == 0);
  }
}

TEST_CASE("JSON: kinds of values and numbers") {
  struct Row {
    const char* text;
    JsonKind kind;
  };
  for (const Row& row :
       {Row{" {", JsonKind::kObject}, Row{"[", JsonKind::kArray}, Row{"\"", JsonKind::kString},
        Row{"10", JsonKind::kUnsigned}, Row{"-1", JsonKind::kNegative},
        Row{"1.5", JsonKind::kFraction}, Row{"0e1", JsonKind::kFraction},
        Row{"true", JsonKind::kBoolean}, Row{"null", JsonKind::kNull}}) {
    CAPTURE(row.text);
    CHECK(JsonCursor(row.text, "x").kind() == row.kind);
  }
  JsonCursor numbers(" [0 , 18446744073709551615,01]", "x");
  numbers.expect('[');
  CHECK(numbers.kind() == JsonKind::kUnsigned);
  CHECK(numbers.number() == 0);
  CHECK(numbers.take(','));
  CHECK(numbers.kind() == JsonKind::kUnsigned);
  CHECK(numbers.number() == UINT64_MAX);
  CHECK(numbers.take(','));
  CHECK(numbers.kind() == JsonKind::kUnsigned);
  CHECK(numbers.number() == 0);  // of "01": a 0 stands alone
  CHECK(!numbers.take(']'));
  CHECK_THROWS_WITH_AS(numbers.expect(']'), doctest::Contains("x is not valid JSON at its byte 29"),
                       DataError);
  JsonCursor large("18446744073709551616", "x");
  CHECK(large.kind() == JsonKind::kUnsigned);
  CHECK_THROWS_WITH_AS(large.number(), doctest::Contains("is too large"), DataError);
  CHECK_THROWS_AS(JsonCursor("  ", "x").kind(), DataError);
}

}  // namespace
}  // namespace lathe
