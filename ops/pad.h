// Borders, added or cut off: of a constant value, or of what lies inside (pad.cpp).
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// x with borders of `value` around its last dimensions, or with borders cut off.
///   amounts  {before, after} of the last dimension, then of the one before it, …; negative ones
///            crop
/// pad(x, {1, 1, 2, 2}) widens [N,C,H,W] to [N,C,H+4,W+2]. Any strides; NHWC is kept, in views too.
/// dtypes: any.   grad: x (twice).
/// throws: ValueError (an odd number of amounts, more than x has dimensions, or a crop to less than
/// nothing), DTypeError if the value's category is higher than x's.
LATHE_API Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, Scalar value = 0);

enum class PadMode : uint8_t {
  kReflect,    // … x[2] x[1] | x[0] x[1] x[2] …: the outermost element is not repeated
  kReplicate,  // … x[0] x[0] | x[0] x[1] x[2] …
  kCircular,   // … x[n-2] x[n-1] | x[0] x[1] x[2] …
};
/// x with borders made of its own elements; amounts as above. NHWC is kept.
/// dtypes: any.   grad: x (twice).
/// throws: ValueError, as above and for a border longer than n - 1 (kReflect) or n (kCircular), or
/// around nothing.
LATHE_API Tensor pad(const Tensor& x, const std::vector<int64_t>& amounts, PadMode mode);

}  // namespace lathe
