// The binary search of ops/searchsorted.h, shared by host and device.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::math {

/// The number of elements of `row` in front of `value`: smaller, or with `right` not larger. The
/// comparisons are written so that a NaN finds no element behind it.
template <class T>
LATHE_HD int64_t search_row(const T* row, int64_t n, T value, bool right) {
  int64_t first = 0, last = n;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    const bool behind = right ? row[middle] > value : row[middle] >= value;
    if (behind)
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

}  // namespace lathe::math
