// What the kernels of max pooling share, on host and device: the positions of windows, and which
// element wins.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/visit.h"

namespace lathe {

/// The windows along one axis of length `in`. Tap k of window i is at
/// i * stride - pad + k * dilation.
struct PoolAxis {
  int64_t in, out, kernel, stride, pad, dilation;

  LATHE_HD int64_t place(int64_t i, int64_t k) const { return i * stride - pad + k * dilation; }
  LATHE_HD bool holds(int64_t i, int64_t k) const { return place(i, k) >= 0 && place(i, k) < in; }
};

/// Takes `value` if it is larger than `best`, or NaN. Of equal values, and of several NaN, the
/// first stays.
template <class T, class S = ComputeType<T>>
LATHE_HD void take_larger(T& best, int32_t& index, T value, int32_t at) {
  const S b = S(best), v = S(value);
  const bool better = (b == b) & !(v <= b);
  best = better ? value : best;
  index = better ? at : index;
}

}  // namespace lathe
