// The records of a zip archive that its reader and its writer share. Internal: zip.h is what others
// use.   ref: APPNOTE.TXT 4.3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::zip {

inline constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50,
                          kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
// Sizes of the fixed parts.
inline constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                         kLocator64Bytes = 20;
inline constexpr uint16_t kZip64Extra = 1;
inline constexpr uint16_t kEncryptedFlag = 1, kUtf8Flag = 1 << 11;
inline constexpr uint32_t kIn64 = 0xffffffff;  // "see the zip64 field"

/// A little-endian number of `bytes` bytes at `at`, which the caller has checked to lie inside.
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

}  // namespace lathe::zip
