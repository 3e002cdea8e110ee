// The numbers of arange and linspace, one functor each, shared by host and device.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::math {

/// first + i * step in i64. Unsigned arithmetic wraps to the right value over all of i64.
struct IntegerSequence {
  uint64_t first, step;
  LATHE_HD int64_t operator()(int64_t i) const {
    return static_cast<int64_t>(first + static_cast<uint64_t>(i) * step);
  }
};

/// first + i * step in f64.
struct FloatSequence {
  double first, step;
  LATHE_HD double operator()(int64_t i) const { return first + static_cast<double>(i) * step; }
};

/// `count` numbers from first to last. Each is counted from the nearer end, so both ends are exact.
struct EvenlySpaced {
  double first, last, step;
  int64_t count;
  LATHE_HD double operator()(int64_t i) const {
    return i < count / 2 + count % 2 ? first + step * static_cast<double>(i)
                                     : last - step * static_cast<double>(count - 1 - i);
  }
};

}  // namespace lathe::math
