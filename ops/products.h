// Products of vectors, and of the blocks of matrices (products.cpp, made of other ops). Sums of
// products over any dimensions: ops/einsum.h.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The sum of a[i] * b[i].
///   a, b  [n]   →  0-d
/// Dtypes, gradients and mixed precision are those of matmul (ops/matmul.h).
LATHE_API Tensor dot(const Tensor& a, const Tensor& b);

/// y[i,j] = a[i] * b[j].
///   a  [n]   b  [m]   →  [n,m]
/// dtypes: numbers, promoted as in ops/binary.h.
/// grad: a, b, twice differentiable.
LATHE_API Tensor outer(const Tensor& a, const Tensor& b);

/// The Kronecker product: each element a[i] becomes the block a[i] * b. If one operand has fewer
/// dimensions, it gets dimensions of size 1 in front.
///   →  each size is the product of both operands' sizes
/// dtypes: numbers, promoted as in ops/binary.h.
/// grad: a, b, twice differentiable.
LATHE_API Tensor kron(const Tensor& a, const Tensor& b);

}  // namespace lathe
