// Adds borders of a constant value or of x's own elements, or cuts borders off (pad.cpp).
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// Adds borders of `value` around x's last dimensions, or cuts borders off.
///   amounts  {before, after} of the last dimension, then of the one before it, …; negative ones
///            crop
/// pad(x, {1, 1, 2, 2}) widens [N,C,H,W] to [N,C,H+4,W+2]. Any strides. The result is NHWC if x is
/// NHWC or a view of an NHWC tensor.
/// dtypes: any.   grad: x, twice differentiable.
/// throws: ValueError for an odd number of amounts, amounts for more dimensions than x has, a crop
/// beyond the size, or a value out of x's range; DTypeError if the value's category is higher than
/// x's.
LATHE_API Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, Scalar value = 0);

enum class PadMode : uint8_t {
  kReflect,    // … x[2] x[1] | x[0] x[1] x[2] …: the outermost element is not repeated
  kReplicate,  // … x[0] x[0] | x[0] x[1] x[2] …
  kCircular,   // … x[n-2] x[n-1] | x[0] x[1] x[2] …; round what a crop on the other side leaves
};
/// Like pad() with a value, but the borders are made of x's own elements.
/// dtypes: any.   grad: x, twice differentiable.
/// throws: ValueError for the amounts that pad() with a value refuses, or if a dimension of size n
/// gets a border longer than n - 1 (kReflect) or n (kCircular), or an empty dimension gets any
/// border.
LATHE_API Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, PadMode mode);

}  // namespace lathe
