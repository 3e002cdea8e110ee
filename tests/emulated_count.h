// A number that only an emulated library tells. Of a real one it is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include "lathe/core/config.h"

namespace lathe::test {

#ifdef LATHE_CUDA_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// What an emulated library has counted. Every comparison with an unknown number holds, so that a
/// case is the same over a real library and asks nothing of it that it cannot tell.
class EmulatedCount {
 public:
  EmulatedCount() = default;  // unknown
  EmulatedCount(int64_t number) : number_(number) {}

  friend bool operator==(const EmulatedCount& a, const EmulatedCount& b) {
    return !a.number_ || !b.number_ || *a.number_ == *b.number_;
  }
  friend bool operator<=(const EmulatedCount& a, const EmulatedCount& b) {
    return !a.number_ || !b.number_ || *a.number_ <= *b.number_;
  }
  friend EmulatedCount operator+(const EmulatedCount& count, int64_t more) {
    return count.number_ ? EmulatedCount(*count.number_ + more) : count;
  }
  friend std::ostream& operator<<(std::ostream& out, const EmulatedCount& count) {
    return count.number_ ? out << *count.number_ : out << "unknown";
  }

 private:
  std::optional<int64_t> number_;
};

}  // namespace lathe::test
