// How much memory a shape with strides spans.
#pragma once

#include "lathe/core/checked_size.h"
#include "lathe/core/shape.h"

namespace lathe {

/// The number of elements of memory from a tensor's first element to its last, both included; 0 if
/// the tensor has no elements. `shape` and `strides` have as many numbers, none of them negative.
inline CheckedSize strided_extent(const Shape& shape, const Strides& strides) {
  CheckedSize last = 0;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += CheckedSize(shape[d] - 1) * strides[d];
  }
  return last + 1;
}

}  // namespace lathe
