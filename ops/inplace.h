// In-place ops change the values of x, raise its version and return x. Each is also a method:
// x.add_(y). If gradients are recorded, x takes over the history of its new values. If x is a view,
// the tensor that it views takes over that history too.
// throws, always with nothing changed: StateError for a leaf that requires grad (outside NoGrad);
// ValueError if elements of x share memory; ShapeError if the other operand does not broadcast to
// x's shape; DTypeError if the result's category is higher than x's (adding 0.5 to integers).
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/unary.h"

namespace lathe {

// clang-format off
LATHE_API const Tensor& add_(const Tensor& x, const Tensor& other, Scalar alpha = 1);  // x += alpha * other, promoted as in ops/binary.h, then cast to x's dtype
LATHE_API const Tensor& sub_(const Tensor& x, const Tensor& other, Scalar alpha = 1);  // x -= alpha * other
LATHE_API const Tensor& mul_(const Tensor& x, const Tensor& other);
LATHE_API const Tensor& div_(const Tensor& x, const Tensor& other);
LATHE_API const Tensor& add_(const Tensor& x, Scalar value);
LATHE_API const Tensor& sub_(const Tensor& x, Scalar value);
LATHE_API const Tensor& mul_(const Tensor& x, Scalar value);
LATHE_API const Tensor& div_(const Tensor& x, Scalar value);
LATHE_API const Tensor& div_(const Tensor& x, const Tensor& other, DivOptions options);  // as ops/binary.h
LATHE_API const Tensor& copy_(const Tensor& x, const Tensor& source);  // converts dtype and device; broadcasts
LATHE_API const Tensor& fill_(const Tensor& x, Scalar value);  // also throws ValueError for a number out of x's range
LATHE_API const Tensor& zero_(const Tensor& x);
LATHE_API const Tensor& clamp_(const Tensor& x, const ClampOptions& options);
LATHE_API const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high);  // as ops/unary.h
LATHE_API const Tensor& neg_(const Tensor& x);
LATHE_API const Tensor& exp_(const Tensor& x);
LATHE_API const Tensor& sqrt_(const Tensor& x);
LATHE_API const Tensor& tanh_(const Tensor& x);
LATHE_API const Tensor& sigmoid_(const Tensor& x);
LATHE_API const Tensor& relu_(const Tensor& x);
// clang-format on

/// Gives x the values and the autograd history of `value`, which has x's shape and dtype. The other
/// in-place ops call it if gradients are recorded. `op` is the calling op's name, for errors.
LATHE_API const Tensor& assign_(const char* op, const Tensor& x, const Tensor& value);

}  // namespace lathe
