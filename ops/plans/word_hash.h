// WordHash: the hash of a key, word by word.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace lathe {

/// Hashes 64-bit words one after another. The multiplier is 2^64 divided by the golden ratio:
/// Knuth, The Art of Computer Programming, volume 3, section 6.4.
class WordHash {
 public:
  explicit WordHash(uint64_t first) : hash_(first) {}

  void add(uint64_t word) { hash_ = (std::rotl(hash_, 5) ^ word) * 0x9e3779b97f4a7c15u; }
  void add(int64_t word) { add(static_cast<uint64_t>(word)); }

  /// Mixes the high bits, which are the best of a product, into the low ones that a table looks at.
  size_t value() const { return hash_ ^ hash_ >> 32; }

 private:
  uint64_t hash_;
};

}  // namespace lathe
