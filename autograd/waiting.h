// The gradients that wait at an op, for an op that can add its own to them as it computes it.
#pragma once

#include <cstddef>

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// While a backward pass computes the gradients of an op on this thread: the gradient that has
/// reached the op of input `input` so far. Undefined where there is none, where several wait, or
/// where somebody besides that op is to see their sum: a hook, retain_grad(), a watcher, or a
/// gradient that is recorded.
LATHE_API Tensor waiting_gradient(size_t input);
/// Takes it away: what this op returns for the input has it added already.
LATHE_API void take_waiting_gradient(size_t input);

}  // namespace lathe::autograd
