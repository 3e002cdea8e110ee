// Whether a kernel can walk a tensor's memory from end to end, whatever the shape is.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// True if the elements fill one range of memory without gaps, in any order.
inline bool is_dense(const Tensor& t) {
  int64_t reach = 1;
  for (int d = 0; d < t.ndim(); ++d) reach += (t.shape()[d] - 1) * t.strides()[d];
  return t.numel() == 0 || (reach == t.numel() && !has_overlap(t));
}

/// True if two tensors of one shape have their elements in the same order in memory.
inline bool same_order(const Tensor& a, const Tensor& b) {
  for (int d = 0; d < a.ndim(); ++d) {
    if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

}  // namespace lathe
