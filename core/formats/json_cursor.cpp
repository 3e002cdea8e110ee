// The grammar of numbers, strings and escapes, checked as it is read.
#include "lathe/core/formats/json_cursor.h"

#include <algorithm>
#include <charconv>

#include "lathe/core/error.h"
#include "lathe/core/utf8.h"

namespace lathe {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void JsonCursor::fail() const {
  LATHE_FAIL(DataError, what_, " is not valid JSON at its byte ", at_ + 1);
}

void JsonCursor::skip_blanks() {
  while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string::npos)
    ++at_;
}

bool JsonCursor::take(char c) {
  skip_blanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonCursor::expect(char c) {
  if (!take(c)) fail();
}

void JsonCursor::expect_end() {
  skip_blanks();
  if (at_ < text_.size()) fail();
}

// The end of the digits of a number without sign; a leading 0 stands alone.
size_t JsonCursor::number_end() const {
  size_t end = at_;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  return text_[at_] == '0' ? at_ + 1 : end;
}

JsonKind JsonCursor::kind() {
  skip_blanks();
  if (at_ == text_.size()) fail();
  const std::string_view rest = text_.substr(at_);
  if (rest.front() == '{') return JsonKind::kObject;
  if (rest.front() == '[') return JsonKind::kArray;
  if (rest.front() == '"') return JsonKind::kString;
  if (rest.front() == '-') return JsonKind::kNegative;
  if (is_digit(rest.front())) {
    const size_t end = number_end();
    const bool goes_on =
        end < text_.size() && std::string_view(".eE").find(text_[end]) != std::string::npos;
    return goes_on ? JsonKind::kFraction : JsonKind::kUnsigned;
  }
  if (rest.starts_with("null")) return JsonKind::kNull;
  if (rest.starts_with("true") || rest.starts_with("false")) return JsonKind::kBoolean;
  fail();
}

uint64_t JsonCursor::number() {
  uint64_t value = 0;
  const size_t end = number_end();
  const auto result = std::from_chars(text_.data() + at_, text_.data() + end, value);
  if (result.ec != std::errc()) {
    LATHE_FAIL(DataError, what_, ": ", text_.substr(at_, std::min<size_t>(end - at_, 40)),
               " is too large");
  }
  at_ = end;
  return value;
}

uint32_t JsonCursor::hex4(size_t at) const {
  uint32_t value = 0;
  const char* const begin = text_.data() + at;
  if (at + 4 > text_.size() || std::from_chars(begin, begin + 4, value, 16).ptr != begin + 4)
    fail();
  return value;
}

// Appends the character of an escape; the position is after the backslash.
void JsonCursor::append_escape(std::string& out) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) fail();
  const char name = text_[at_++];
  if (const size_t i = kNames.find(name); i != std::string::npos) {
    out += kValues[i];
    return;
  }
  if (name != 'u') fail();
  uint32_t code_point = hex4(at_);
  at_ += 4;
  if (code_point >= 0xd800 && code_point < 0xdc00) {  // the first half of a pair
    if (!text_.substr(at_).starts_with("\\u")) fail();
    const uint32_t second = hex4(at_ + 2);
    if (second < 0xdc00 || second > 0xdfff) fail();
    code_point = 0x10000 + ((code_point - 0xd800) << 10) + (second - 0xdc00);
    at_ += 6;
  } else if (code_point >= 0xdc00 && code_point < 0xe000) {
    fail();
  }
  append_utf8(out, code_point);
}

std::string_view JsonCursor::string(std::string& unescaped) {
  expect('"');
  const size_t begin = at_;
  size_t copied = begin;  // the text up to here is in `unescaped`
  bool has_escapes = false;
  unescaped.clear();
  for (;;) {
    if (at_ == text_.size()) fail();
    const char c = text_[at_];
    if (c == '"') break;
    if (c == '\\') {
      if (!has_escapes) {
        size_t end = at_;
        while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
        unescaped.reserve(end - begin);  // enough: unescaping makes it shorter
        has_escapes = true;
      }
      unescaped.append(text_, copied, at_++ - copied);
      append_escape(unescaped);
      copied = at_;
      continue;
    }
    const size_t length = utf8_length(text_.substr(at_));
    if (length == 0 || static_cast<unsigned char>(c) < 0x20) fail();
    at_ += length;
  }
  const size_t end = at_++;
  if (!has_escapes) return text_.substr(begin, end - begin);
  unescaped.append(text_, copied, end - copied);
  return unescaped;
}

}  // namespace lathe
