// Random numbers of one sample. They are a function of (seed, epoch, sample, stream) and of nothing
// else, so the number of workers, their timing and the order of reading cannot change a batch.
#pragma once

#include <bit>
#include <cstdint>

#include "lathe/core/random/philox.h"

namespace lathe::data {

/// A sequence of random numbers. Sequences of different (seed, epoch, index, stream) share no
/// Philox counter.
class Random {
 public:
  /// 2^34 numbers. `index` must be below 2^56, `epoch` below 2^32, `stream` below 2^8: higher bits
  /// are dropped.
  Random(uint64_t seed, int64_t epoch, int64_t index, int stream)
      : key_(seed ^ kDomain),
        counter_lo_(static_cast<uint64_t>(epoch) << 32),
        counter_hi_(static_cast<uint64_t>(stream) << 56 |
                    (static_cast<uint64_t>(index) & kIndexMask)) {}

  uint32_t bits() {
    if (used_ == 4) {
      block_ = philox4x32_10(key_, counter_lo_, counter_hi_);
      counter_lo_ = (counter_lo_ & ~kBlockMask) | ((counter_lo_ + 1) & kBlockMask);
      used_ = 0;
    }
    return block_.v[used_++];
  }

  int64_t epoch() const { return static_cast<int64_t>(counter_lo_ >> 32); }
  /// The beginning of the sequence that the same seed, index and stream have in another epoch.
  Random in_epoch(int64_t epoch) const {
    Random other = *this;
    other.counter_lo_ = static_cast<uint64_t>(epoch) << 32;
    other.used_ = 4;
    return other;
  }

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform() { return uniform_from_bits(bits()); }

  /// 0 to n-1, each equally likely; n > 0.
  /// ref: Lemire 2019 (arXiv:1805.10941) below 2^32.
  uint64_t below(uint64_t n) {
    if (n > UINT32_MAX) return below_large(n);
    uint64_t product = uint64_t{bits()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const auto n32 = static_cast<uint32_t>(n);
      const uint32_t threshold = (0u - n32) % n32;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{bits()} * n;
    }
    return product >> 32;
  }

 private:
  // Keeps the numbers apart from those of core's generators with the same seed.
  static constexpr uint64_t kDomain = 0x64617461'6c6f6164;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << 56) - 1;
  static constexpr uint64_t kBlockMask = UINT32_MAX;

  uint64_t below_large(uint64_t n) {
    const uint64_t mask = ~uint64_t{0} >> std::countl_zero(n - 1);
    for (;;) {
      const uint64_t high = bits();
      const uint64_t value = (high << 32 | bits()) & mask;
      if (value < n) return value;
    }
  }

  uint64_t key_, counter_lo_, counter_hi_;
  Philox4x32 block_{};
  uint32_t used_ = 4;
};

/// Identifies the random numbers of one sample in one epoch. Every draw that a data set or a
/// transform makes for the sample comes from it.
struct Key {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t index = 0;

  /// Dataset::read may use the streams 0 to 125. The stages of a Transform use those from
  /// kTransformStream on.
  Random random(int stream = 0) const { return Random(seed, epoch, index, stream); }
};

inline constexpr int kPointsStream = 126;  // of RandomPoints
inline constexpr int kMixStream = 127;     // of mixup and cutmix, with a batch's number as index
// To 254: stage k of a transform uses kTransformStream + k.
inline constexpr int kTransformStream = 128;
inline constexpr int kOrderStream = 255;  // of a sampler, with index 0

}  // namespace lathe::data
