// Bytes as text, for values that travel in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/distributed/error.h"

namespace lathe::distributed {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

/// Two lower-case digits per byte.
inline std::string to_hex(std::span<const char> bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

/// throws: DistributedError for what to_hex did not make.
inline std::vector<char> from_hex(std::string_view text) {
  LATHE_CHECK(DistributedError,
              text.size() % 2 == 0 && text.find_first_not_of(kHexDigits) == text.npos,
              "process group: expected two digits of 0 to f for each byte, got \"", text, "\"");
  std::vector<char> bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(
        static_cast<char>(16 * kHexDigits.find(text[i]) + kHexDigits.find(text[i + 1])));
  return bytes;
}

}  // namespace lathe::distributed
