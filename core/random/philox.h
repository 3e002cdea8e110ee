// Philox 4x32-10, the counter-based generator behind every random number, and the uniform numbers
// made from its bits. The same code runs on host and device. Word i of a random call is lane i % 4
// of counter offset + i / 4 under the key seed, so nothing random depends on threads;
// core/random/generator.h hands out the offsets.
// ref: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe {

/// The four words of one counter.
struct Philox4x32 {
  uint32_t v[4];
};

/// Ten rounds of Philox on a 128-bit counter under a 64-bit key. cuRAND reads the same words after
/// curand_init(seed, subsequence, offset) with seed = key, subsequence = counter_hi and
/// offset / 4 = counter_lo.
LATHE_HD constexpr Philox4x32 philox4x32_10(uint64_t key, uint64_t counter_lo,
                                            uint64_t counter_hi) {
  uint32_t c0 = static_cast<uint32_t>(counter_lo), c1 = static_cast<uint32_t>(counter_lo >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_hi), c3 = static_cast<uint32_t>(counter_hi >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;  // the key schedule: golden ratio and sqrt(3) - 1
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// A uniform number in [0, 1): the upper 24 bits. Exact in a float, so the same on every device.
LATHE_HD constexpr float uniform_from_bits(uint32_t bits) {
  // As a signed number, which every vector unit converts.
  return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;
}

}  // namespace lathe
