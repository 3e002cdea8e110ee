// Checksums of downloads and data sets: SHA-256 (FIPS 180-4) and MD5 (RFC 1321, only because data
// sets publish it). Our own: core needs nothing else of a cryptography library (OpenSSL,
// libgcrypt), and every user of liblathe would have to link one for two functions with published
// test vectors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

namespace hash_detail {

// What both hashes share: 64-byte blocks, then a 1 bit, zeros and the length in bits.
class LATHE_API BlockHash {
 public:
  virtual ~BlockHash() = default;

  /// Appends `bytes` bytes.
  void update(const void* data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }

 protected:
  void finish(bool big_endian_length);

 private:
  virtual void block(const uint8_t* data) = 0;

  uint8_t buffer_[64];
  size_t buffered_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace hash_detail

/// SHA-256 of everything given to update(). hex() finishes it: call it once.
class LATHE_API Sha256 final : public hash_detail::BlockHash {
 public:
  std::string hex();  // 64 lower-case digits

 private:
  void block(const uint8_t* data) override;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

/// MD5 of everything given to update(). hex() finishes it: call it once. MD5 detects accidents, not
/// attacks.
class LATHE_API Md5 final : public hash_detail::BlockHash {
 public:
  std::string hex();  // 32 lower-case digits

 private:
  void block(const uint8_t* data) override;
  std::array<uint32_t, 4> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
};

LATHE_API std::string sha256_hex(std::string_view text);
LATHE_API std::string md5_hex(std::string_view text);

/// Checksum of a file's content, read in pieces.
/// throws: FileError.
LATHE_API std::string sha256_hex_of_file(const std::string& path);
LATHE_API std::string md5_hex_of_file(const std::string& path);

}  // namespace lathe
