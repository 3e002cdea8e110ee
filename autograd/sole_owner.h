// is_sole_owner(): whether anybody else sees what is written into a tensor.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// True if `t` is the only handle to its memory. Then it can be kept without a copy, and be written
/// without anybody noticing. An op may ask this of the gradient that it was given: where somebody
/// else is to see the gradient (a hook, retain_grad(), a watcher), he has a handle as well.
inline bool is_sole_owner(const Tensor& t) {
  return t.impl().use_count() == 1 && t.impl().storage->use_count() == 1;
}

}  // namespace lathe::autograd
