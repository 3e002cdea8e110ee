// A tensor on another device, laid out as it is here.
#pragma once

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/tensor.h"

namespace lathe::test {

/// `t` on `device`, its strides and overlaps kept.
inline Tensor same_memory_on(Device device, const Tensor& t) {
  const NoGrad off;
  // All of the storage that t looks at, so that a view there looks at the same places.
  int64_t reach = 1;
  for (int d = 0; d < t.ndim(); ++d) reach += (t.shape()[d] - 1) * t.strides()[d];
  if (t.numel() == 0) reach = 0;
  const Tensor memory = alias(t, {reach}, {1}, t.offset());
  return alias(memory.to(device), t.shape(), t.strides(), 0);
}

}  // namespace lathe::test
