// Cutting PTX text into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::ptx {

inline std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

/// At each separator that stands in no brackets; the pieces trimmed. Nothing gives no piece.
inline std::vector<std::string> split(std::string_view text, char separator = ',') {
  std::vector<std::string> parts;
  if (trim(text).empty()) return parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : separator;
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != separator || (depth != 0 && at < text.size())) continue;
    parts.emplace_back(trim(text.substr(begin, at - begin)));
    begin = at + 1;
  }
  return parts;
}

}  // namespace lathe::ptx
