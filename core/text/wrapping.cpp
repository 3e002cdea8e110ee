// Breaking lines between words, for help texts and messages.
#include "lathe/core/text/wrapping.h"

#include <algorithm>
#include <vector>

namespace lathe {
namespace {

constexpr int kNarrowest = 20;
constexpr size_t kHanging = 2;  // columns

// Whether the text begins with a unit and the space between it and its number.
bool begins_with_unit(std::string_view text) {
  constexpr std::string_view kUnits[] = {" %",   " ms",    " us",   " img/s",   " KiB",    " MiB",
                                         " GiB", " bytes", " GB/s", " GFLOP/s", " TFLOP/s"};
  return std::ranges::any_of(kUnits, [&](std::string_view unit) {
    return text.starts_with(unit) &&
           (text.size() == unit.size() ||
            std::string_view(" ,;:)|").find(text[unit.size()]) != text.npos);
  });
}

// Cuts a text into pieces that belong together: words with the space before them, the choices of
// "a|b|c", and numbers with their units.
std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    size_t end = text.find_first_of(" |", 1);
    while (end != text.npos && begins_with_unit(text.substr(end)))
      end = text.find_first_of(" |", end + 1);
    const size_t size = end == text.npos ? text.size() : text[end] == '|' ? end + 1 : end;
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

size_t indentation_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Where the lines begin that follow a row.
size_t indentation_of_rest(std::string_view line, size_t width) {
  const size_t begin = indentation_of(line), gap = line.find("  ", begin);
  const size_t second = gap == line.npos ? gap : line.find_first_not_of(' ', gap);
  if (second == line.npos) return begin + kHanging;
  const size_t column = columns_of(line.substr(0, second));
  return column <= width / 3 ? column : begin + kHanging;
}

}  // namespace

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool fits(std::string_view line, int width) {
  return width < kNarrowest || columns_of(line) <= static_cast<size_t>(width);
}

void append_wrapped(std::string& out, std::string_view text, size_t at, size_t indent, int width) {
  bool is_fresh = false;  // the line was begun by a break and has no word yet
  for (std::string_view piece : pieces_of(text)) {
    if (at > indent && at + columns_of(piece) > static_cast<size_t>(width)) {
      while (out.ends_with(' ')) out.pop_back();  // of two spaces between words
      out += "\n" + std::string(indent, ' ');
      at = indent;
      is_fresh = true;
    }
    if (is_fresh && piece.starts_with(' ')) piece.remove_prefix(1);
    is_fresh = is_fresh && piece.empty();
    out += piece;
    at += columns_of(piece);
  }
  out += '\n';
}

std::string wrapped(std::string_view line, int width) {
  if (fits(line, width)) return std::string(line);
  std::string out;
  append_wrapped(out, line, 0, indentation_of(line) + kHanging, width);
  out.pop_back();
  return out;
}

std::string wrapped_rows(std::string_view lines, int width) {
  std::string out;
  for (;;) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    if (fits(line, width)) {
      out += line;
      out += '\n';
    } else {
      append_wrapped(out, line, 0, indentation_of_rest(line, static_cast<size_t>(width)), width);
    }
    if (end == lines.npos) break;
    lines.remove_prefix(end + 1);
  }
  out.pop_back();
  return out;
}

}  // namespace lathe
