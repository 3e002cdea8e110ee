// The images of golden_transforms.py, what a transform makes of one, and the hash that the script
// keeps of results.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/data/transforms/transforms.h"

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

/// Every byte must be written.
inline std::vector<uint8_t> applied(const Transform& t, const std::vector<uint8_t>& image,
                                    const ImageSpec& spec, Key key = {}) {
  std::vector<uint8_t> out(static_cast<size_t>(t.output(spec).pixels()), 0xaa);
  t.apply(image.data(), spec, key, out.data());
  return out;
}

}  // namespace lathe::data::testing
