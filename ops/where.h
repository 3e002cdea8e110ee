// Choosing between two tensors, element by element. where.cpp: checks and gradients;
// elementwise_kernels/where_cpu.cpp, where_cuda.cu: kernels.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// cond ? a : b, element by element. cond, a and b broadcast to one shape; dtypes of a and b are
/// promoted as in ops/binary.h.
///   cond  bool
/// An element that is not chosen affects neither the result nor the gradient, even if the element
/// is NaN.
/// grad: a, b, twice differentiable.   amp: none, the result follows a and b.
/// throws: DTypeError, ShapeError, DeviceError.
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b);
LATHE_API Tensor where(const Tensor& cond, const Tensor& a, Scalar b);
LATHE_API Tensor where(const Tensor& cond, Scalar a, const Tensor& b);

/// A copy of x with `value` wherever mask is true, in x's dtype. x and mask (bool) broadcast.
/// grad: x, twice differentiable.
/// throws: as where; DTypeError if value's category is higher than x's; ValueError if x's integer
/// dtype cannot hold value.
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);

/// Like masked_fill() with a number, but the value is a 0-d tensor, on x's device or the CPU.
/// grad: x, value, twice differentiable.
LATHE_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

/// Like masked_fill, but in place: writes value into x wherever mask is true. mask must broadcast
/// to x's shape.
/// throws: as masked_fill, and as the ops of ops/inplace.h.
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, Scalar value);
LATHE_API const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Tensor& value);

namespace cpu {
/// out = cond ? a : b. cond, a and b broadcast to out's shape; a, b and out have one dtype. a and b
/// may be 0-d CPU tensors even if out is on a GPU.
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cpu
namespace cuda {
void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b);
}  // namespace cuda

}  // namespace lathe
