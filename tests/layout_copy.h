// Copies that keep the gaps of a sliced tensor, which clone() closes.
#pragma once

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/tensor.h"

namespace lathe::test {

/// A copy of t on `device`, with t's strides.
inline Tensor layout_copy(const Tensor& t, Device device) {
  const NoGrad off;
  int64_t reach = t.numel() == 0 ? 0 : 1;
  for (int d = 0; d < t.ndim() && reach > 0; ++d) reach += (t.shape()[d] - 1) * t.strides()[d];
  const Tensor memory = alias(t, {reach}, {1}, t.offset()).clone();
  return alias(memory.to(device), t.shape(), t.strides(), 0);
}

}  // namespace lathe::test
