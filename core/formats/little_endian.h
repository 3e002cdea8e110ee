// Numbers in files, lowest byte first, on machines of either byte order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

/// The little-endian number of `bytes` bytes at `at`. The caller has checked that it lies inside.
inline uint64_t number_at(std::string_view text, int64_t at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) {
    value = value << 8 | static_cast<unsigned char>(text[static_cast<size_t>(at + i)]);
  }
  return value;
}

inline void append_number(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace lathe
