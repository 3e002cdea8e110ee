// Whether a tensor's memory can be walked without regard to its shape.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Do the elements lie side by side, in whatever order?
inline bool is_dense(const Tensor& t) {
  int64_t reach = 1;
  for (int d = 0; d < t.ndim(); ++d) reach += (t.shape()[d] - 1) * t.strides()[d];
  return t.numel() == 0 || (reach == t.numel() && !has_overlap(t));
}

/// Do two tensors of one shape have their elements in the same order?
inline bool same_order(const Tensor& a, const Tensor& b) {
  for (int d = 0; d < a.ndim(); ++d) {
    if (a.shape()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

}  // namespace lathe
