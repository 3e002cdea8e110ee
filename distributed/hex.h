// Bytes as text, for values that travel in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lathe::distributed {

/// Two lower-case digits per byte.
inline std::string to_hex(std::span<const char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[(c >> 4) & 15];
    text += kDigits[c & 15];
  }
  return text;
}

/// throws: std::invalid_argument for what to_hex did not make.
inline std::vector<char> from_hex(const std::string& text) {
  std::vector<char> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace lathe::distributed
