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

/// The sum of the products of a and b over pairs of dimensions: a's `a_dims` with b's `b_dims`. The
/// overload with one number pairs a's last `dims` dimensions with b's first `dims`; 0 multiplies
/// each element of a with each of b.
///   →  a's other dimensions, then b's others
/// Dtypes, gradients and mixed precision are those of matmul.
/// throws: what matmul throws; ValueError if `dims` is negative or above the number of dimensions
/// of a or b.
LATHE_API Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims = 2);
LATHE_API Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_dims,
                           const Dims& b_dims);

}  // namespace lathe
