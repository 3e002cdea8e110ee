// The images of golden_transforms.py, and the hash that it keeps of results.
#pragma once

#include <cstdint>
#include <vector>

namespace lathe::data::testing {

/// Byte i is the highest byte of mix(stream * 2654435761 + i), MurmurHash3's 32-bit finaliser.
inline std::vector<uint8_t> hash_image(uint32_t stream, int64_t bytes) {
  std::vector<uint8_t> image;
  for (uint32_t i = 0; i < bytes; ++i) {
    uint32_t x = stream * 2654435761u + i;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    image.push_back(static_cast<uint8_t>((x ^ x >> 16) >> 24));
  }
  return image;
}

/// FNV-1a.
inline uint64_t fnv(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace lathe::data::testing
