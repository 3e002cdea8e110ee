// Choosing between two tensors, element by element. where.cpp: checks and gradients;
// elementwise_kernels/where_cpu.cpp, where_cuda.cu: kernels.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// cond ? a : b, all broadcast to one shape; dtypes of a and b are promoted as in ops/binary.h.
///   cond  bool
/// An element that is not chosen has no influence, also if it is NaN: neither on the value nor on
/// the gradient.
/// grad: a, b (twice).   amp: none, the result follows a and b.
/// throws: DTypeError, ShapeError, DeviceError.
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b);
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, Scalar b);
LATHE_API Tensor where(const Tensor& cond, Scalar a, const Tensor& b);

/// x with `value` wherever mask is true; has x's dtype. x and mask (bool) broadcast.
/// grad: x (twice).
/// throws: as where; also DTypeError if the value's category is higher than x's.
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);

/// The same with a 0-d tensor as value, on x's device or the CPU.
/// grad: x, value (twice).
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

/// The same in x itself. mask must broadcast to x's shape.
/// throws: as masked_fill, and as ops/inplace.h.
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, Scalar value);
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value);

namespace cpu {
/// out = cond ? a : b. All broadcast to out; a, b and out have one dtype. a and b may be 0-d CPU
/// tensors while out is on a GPU.
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cpu
namespace cuda {
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cuda

}  // namespace lathe
