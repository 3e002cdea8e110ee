// The records of a zip archive that its reader and its writer share. Internal: use zip.h.
// ref: APPNOTE.TXT 4.3.
#pragma once

#include <cstdint>

#include "lathe/core/formats/little_endian.h"

namespace lathe::zip {

inline constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50,
                          kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
// Sizes of the fixed parts.
inline constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                         kLocator64Bytes = 20;
inline constexpr uint16_t kZip64Extra = 1;
inline constexpr uint16_t kEncryptedFlag = 1, kUtf8Flag = 1 << 11;
inline constexpr uint32_t kIn64 = 0xffffffff;  // "see the zip64 field"

}  // namespace lathe::zip
