// Choosing between two tensors, element by element.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// cond ? a : b, all broadcast to one shape; dtypes of a and b promoted as in ops/binary.h.
///   cond  bool
/// What is not chosen has no influence: its NaN stays out, of the gradient too.
/// grad: a, b (twice).   No amp word.   throws: DTypeError, ShapeError, DeviceError.
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b);
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, Scalar b);
LATHE_API Tensor where(const Tensor& cond, Scalar a, const Tensor& b);

/// x with `value` wherever mask is true; x's dtype. x and mask (bool) broadcast.
/// grad: x (twice).   throws: DTypeError if the value's category is higher than x's; as where.
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);

/// The same with a tensor of one number, 0-d, on x's device or the CPU.   grad: x, value (twice).
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

/// The same in x itself: mask must broadcast to x's shape.   throws: also as ops/inplace.h.
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, Scalar value);
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value);

namespace cpu {
/// out = cond ? a : b; all broadcast to out; a, b and out of one dtype (a and b may be 0-d CPU
/// tensors on another device).
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cpu
namespace cuda {
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cuda

}  // namespace lathe
