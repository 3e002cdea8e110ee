// Borders of a constant value, added or cut off (pad.cpp).
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// x with borders of `value` around its last dimensions, or with borders cut off.
///   amounts  {before, after} of the last dimension, then of the one before it, …; negative ones
///            crop
/// pad(x, {1, 1, 2, 2}) widens [N,C,H,W] to [N,C,H+4,W+2]. Any strides; NHWC is kept.
/// dtypes: any.   grad: x (twice).
/// throws: ValueError (an odd number of amounts, more than x has dimensions, or a crop to less than
/// nothing), DTypeError if the value's category is higher than x's.
LATHE_API Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, Scalar value = 0);

}  // namespace lathe
