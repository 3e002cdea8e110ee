// The one op that the engine needs: the sum of two gradients. It is defined in ops/binary.cpp.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// sum + gradient. Writes into sum's memory if `sum` is its only owner and gradients are not being
/// recorded.
LATHE_API Tensor accumulate(Tensor sum, const Tensor& gradient);

/// sum += gradient, in place, never recorded.
LATHE_API void accumulate_(const Tensor& sum, const Tensor& gradient);

}  // namespace lathe::autograd
