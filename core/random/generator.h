// Generators of random numbers: a seed and an offset. The bits come from core/random/philox.h. What
// ops hand to their kernels is in core/random/random_start.h. The state of all default generators,
// for checkpoints, is in core/random/random_state.h.
#pragma once

#include <cstdint>
#include <mutex>

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe {

/// A generator of random numbers (Philox4x32-10). Each call for random numbers takes the next run
/// of counters, which begins at a state `start`. Word i of the call is lane i % 4 of
/// philox4x32_10(start.seed, start.offset + i / 4, 0). Value i is made of word i, with two
/// exceptions:
///   - Normal numbers 2k and 2k + 1 are both made of words 2k and 2k + 1.
///   - Integer number i, if its range is wider than 32 bits, is made of words 2i and 2i + 1.
/// So the values do not depend on the number of threads.
/// Thread-safe: calls from several threads get their runs in the order in which they arrive.
class LATHE_API Generator {
 public:
  explicit Generator(uint64_t seed) : state_{seed, 0} {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Where the next random call starts. It decides all later numbers.
  struct State {
    uint64_t seed;
    uint64_t offset;
    bool operator==(const State&) const = default;
  };

  /// Takes the next `counters` counters, which are 4 * counters words of 32 bits. 0 takes nothing.
  /// → the generator's state before the call
  State reserve(uint64_t counters);

  /// The number of counters that hold `words` words of 32 bits.
  static constexpr uint64_t counters_for(int64_t words) {
    return (static_cast<uint64_t>(words) + 3) / 4;
  }

  uint64_t seed() const;
  /// Starts over: this seed, offset 0.
  void manual_seed(uint64_t seed);

  /// `set_state(state())` changes nothing.
  State state() const;
  void set_state(State state);

 private:
  mutable std::mutex mutex_;
  State state_;
};

/// The seed of the default generators until the first `manual_seed`. It is fixed, so runs repeat
/// unless the program sets another seed.
inline constexpr uint64_t kDefaultSeed = 0;

/// The generator that random calls on `device` use unless they are given another one. Each device
/// has one, which lives until the process ends.
LATHE_API Generator& default_generator(Device device = kCPU);

/// Seeds the default generators of all devices, including devices that are first used later.
LATHE_API void manual_seed(uint64_t seed);

}  // namespace lathe
