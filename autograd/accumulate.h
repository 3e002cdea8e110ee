// The one op that the engine needs: the sum of two gradients. Declared here, defined in
// ops/binary.cpp.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// sum + gradient. Written into sum's memory when nobody else holds it and no gradient is being
/// recorded.
LATHE_API Tensor accumulate(Tensor sum, const Tensor& gradient);

/// sum += gradient, in place, never recorded.
LATHE_API void accumulate_(const Tensor& sum, const Tensor& gradient);

}  // namespace lathe::autograd
