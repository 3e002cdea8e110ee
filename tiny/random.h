// Random numbers that depend on nothing but their place. A usual generator has a state, so the
// thousandth number depends on who drew the 999 before it. Philox has none: it turns a key and a
// counter into four random words. So every use gets a key and counters of its own, and threads and
// restarts change nothing.
#pragma once

#include <array>
#include <numeric>

#include "tensor.h"

namespace tiny {

/// Philox 4x32-10: ten rounds of multiplying and mixing (Salmon et al., SC 2011).
inline std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  std::array<uint32_t, 4> c{low(counter_low), high(counter_low), low(counter_high),
                            high(counter_high)};
  uint32_t k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// In [0, 1): the upper 24 bits.
inline double uniform_from_bits(uint32_t bits) { return (bits >> 8) * 0x1p-24; }

/// Initial values. Each call takes the next counters under the key `seed`.
class Generator {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}

  /// Numbers in [-bound, bound).
  Tensor uniform(const Shape& shape, double bound) {
    Tensor x(shape);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto words = philox(seed_, counter_ + i / 4, 0);
      x.data()[i] = bound * (2 * uniform_from_bits(words[i % 4]) - 1);
    }
    counter_ += (x.numel() + 3) / 4;
    return x;
  }

 private:
  uint64_t seed_, counter_ = 0;
};

/// A sequence of words that is a function of (seed, epoch, index, stream).
class Random {
 public:
  Random(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t stream)
      : key_(seed ^ 0x64617461'6c6f6164),  // apart from a Generator of the same seed
        counter_low_(epoch << 32),
        counter_high_(stream << 56 | index) {}

  uint32_t bits() {
    if (used_ == 4) {
      words_ = philox(key_, counter_low_++, counter_high_);
      used_ = 0;
    }
    return words_[used_++];
  }

  /// 0 to n-1, each equally likely: the high word of bits * n, for n > 0. Of the 2^32 words, 2^32
  /// mod n too many give some results once more than others; they are drawn again (Lemire 2019).
  uint32_t below(uint32_t n) {
    const uint32_t too_many = (0u - n) % n;
    uint64_t product = uint64_t{bits()} * n;
    while (static_cast<uint32_t>(product) < too_many) product = uint64_t{bits()} * n;
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint64_t key_, counter_low_, counter_high_;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 4;
};

/// 0 to n-1 in a random order, each order equally likely: from the end on, every place gets one of
/// those that are left (Fisher and Yates). A function of (seed, epoch).
inline std::vector<int64_t> random_order(int64_t n, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, epoch, 0, 255);
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

}  // namespace tiny

// What the real one adds, and why
// - core/random/philox.h: each thread of a GPU computes the words of its own elements.
// - data/random.h has the sequences; core/random/generator.h the generators, whose state is kept in
//   checkpoints (core/random/random_state.h).
