// Which characters are spelled out, and how.
#include "lathe/core/printable.h"

#include <algorithm>

#include "lathe/core/utf8.h"

namespace lathe {

namespace {

void append_hex(std::string& out, uint32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[value >> shift & 15u];
}

/// The code point of a valid UTF-8 sequence.
uint32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first;
  uint32_t value = first & (0x7fu >> sequence.size());
  for (const char c : sequence.substr(1)) value = value << 6 | (static_cast<uint32_t>(c) & 0x3fu);
  return value;
}

bool is_shown(uint32_t code_point) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kHidden[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},                        // controls
      {0x061c, 0x061c}, {0x200e, 0x200f}, {0x202a, 0x202e},  // writing direction
      {0x2066, 0x2069}, {0x2028, 0x2029},                    // the same; line separators
  };
  return std::ranges::none_of(
      kHidden, [&](const Range& r) { return code_point >= r.first && code_point <= r.last; });
}

void append_escaped(std::string& out, uint32_t code_point) {
  constexpr std::string_view kNamed = "\n\r\t", kLetters = "nrt";
  if (code_point >= 0x7f) {
    out += "\\u";
    append_hex(out, code_point, 4);
  } else if (const size_t named = kNamed.find(static_cast<char>(code_point));
             named != std::string_view::npos) {
    out += {'\\', kLetters[named]};
  } else {
    out += "\\x";
    append_hex(out, code_point, 2);
  }
}

std::string escaped(std::string_view text, bool keep_line_ends) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(sequence.size());
    if (length == 0) {
      out += "\\x";
      append_hex(out, static_cast<unsigned char>(sequence[0]), 2);
    } else if (const uint32_t character = code_point(sequence);
               is_shown(character) || (keep_line_ends && character == '\n')) {
      out += sequence;
    } else {
      append_escaped(out, character);
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string printable_lines(std::string_view text) { return escaped(text, true); }

}  // namespace lathe
