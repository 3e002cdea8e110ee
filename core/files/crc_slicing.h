// The arithmetic of the two 32-bit CRCs (core/files/crc32.h, core/files/crc32c.h): eight bytes per
// step ("slicing by 8").
// ref: Kounavis and Berry, "A systematic approach to building high performance software-based CRC
// generators", 2005.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lathe::crc_detail {

/// tables[k][b]: what byte b contributes when k further bytes follow it in the same step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1u ? polynomial : 0u);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t k = 1; k < 8; ++k) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xffu];
    }
  }
  return tables;
}

/// The CRC whose polynomial, with its bits reversed, is kPolynomial. It starts with all ones and
/// inverts the result. `before` is the result of the bytes before these.
template <uint32_t kPolynomial>
uint32_t crc_by_slicing(const void* data, size_t bytes, uint32_t before) noexcept {
  static constexpr Tables kTables = make_tables(kPolynomial);
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t crc = ~before;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes >= 8; bytes -= 8, p += 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      word ^= crc;
      crc = 0;
      for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffu];
    }
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xffu];
  return ~crc;
}

inline uint32_t crc32c_by_slicing(const void* data, size_t bytes, uint32_t before) noexcept {
  return crc_by_slicing<0x82F63B78u>(data, bytes, before);  // 0x1EDC6F41 with its bits reversed
}

}  // namespace lathe::crc_detail
