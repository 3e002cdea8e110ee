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

/// Initial values. Each call takes the next counters under the key `seed`. So here the counter is a
/// state: a tensor's place is how many numbers were drawn before it, in steps of four.
class Generator {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}
  /// Numbers in [-bound, bound).
  Tensor uniform(const Shape& shape, double bound) {
    Tensor x(shape);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto words = philox(seed_, counter_ + i / 4, 0);  // repeated for each word, for brevity
      const double from_0_to_1 = (words[i % 4] >> 8) * 0x1p-24;  // without 1: 24 bits
      x.data()[i] = bound * (2 * from_0_to_1 - 1);
    }
    counter_ += (x.numel() + 3) / 4;
    return x;
  }

 private:
  uint64_t seed_, counter_ = 0;
};

/// A sequence of words that is a function of (seed, epoch, index, stream). The stream, from 0 to
/// 255, tells two uses of one index apart. It has nothing to do with a device's.
class Random {
 public:
  Random(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t stream)
      : key_(seed ^ 0x64617461'6c6f6164),  // "dataload": not a Generator's key
        counter_low_(epoch << 32),
        counter_high_(stream << 56 | index) {}
  uint32_t bits() {
    if (used_ == 4) {
      words_ = philox(key_, counter_low_++, counter_high_);
      used_ = 0;
    }
    return words_[used_++];
  }

  /// 0 to n-1, for n > 0, each equally likely: bits * n / 2^32, rounded down. That alone would give
  /// some results more often, so 2^32 mod n of the 2^32 words are drawn again (Lemire 2019). With 8
  /// words instead of 2^32, and n = 3, the words 0 … 7 give 0 0 0 1 1 1 2 2. The remainders of
  /// word * 3 / 8 are 0 3 6 1 4 7 2 5. Without the 8 mod 3 = 2 below 2 each result has two words.
  uint32_t below(uint32_t n) {
    const uint32_t too_many = (0u - n) % n;  // (2^32 - n) mod n, which is 2^32 mod n
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
// - core/random/random_state.h: a checkpoint keeps the generators' counters.
