// CRC-32C (Castagnoli), the checksum of the files that we design. It finds every error burst of up
// to 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe {

/// The CRC-32C of `bytes` bytes. `before` is the CRC of the bytes before these: that of a, then b,
/// is crc32c(b, n, crc32c(a, m)).
/// ref: RFC 3720, appendix B.4; the CRC of "123456789" is 0xE3069283.
LATHE_API uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0) noexcept;

}  // namespace lathe
