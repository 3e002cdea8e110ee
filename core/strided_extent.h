// How much memory a shape with strides spans.
#pragma once

#include "lathe/core/checked_size.h"
#include "lathe/core/shape.h"

namespace lathe {

/// The elements of memory from the first to the last of a tensor, both included; 0 if it has none.
/// `shape` and `strides` have as many numbers, none of them negative.
inline CheckedSize strided_extent(const Shape& shape, const Strides& strides) {
  CheckedSize last = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += CheckedSize(shape[d] - 1) * strides[d];
  }
  return last + 1;
}

}  // namespace lathe
