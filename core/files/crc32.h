// CRC-32 as in zip, gzip and PNG. Files of our own design use crc32c.h, which finds more errors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe {

/// The CRC-32 of `bytes` bytes. `before` is the CRC of the bytes before these, as in crc32c().
/// ref: ISO 3309, RFC 1952 section 8; the CRC of "123456789" is 0xCBF43926.
LATHE_API uint32_t crc32(const void* data, size_t bytes, uint32_t before = 0) noexcept;

}  // namespace lathe
