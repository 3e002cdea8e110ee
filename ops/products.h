// Products of vectors, and of the blocks of matrices (products.cpp, made of other ops). Sums of
// products over any dimensions: ops/einsum.h.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The sum of a[i] * b[i].
///   a, b  [n]   →  0-d
/// As matmul (ops/matmul.h) in dtypes, gradients and under Autocast.
LATHE_API Tensor dot(const Tensor& a, const Tensor& b);

/// y[i,j] = a[i] * b[j].
///   a  [n]   b  [m]   →  [n,m]
/// dtypes: numbers, promoted as in ops/binary.h.
/// grad: a, b (twice).
LATHE_API Tensor outer(const Tensor& a, const Tensor& b);

/// Kronecker product: b, multiplied by each element of a in turn; the block at a's element i is
/// a[i] * b. Of fewer dimensions the missing ones in front have size 1.
///   →  in each dimension the product of both sizes
/// dtypes: numbers, promoted as in ops/binary.h.
/// grad: a, b (twice).
LATHE_API Tensor kron(const Tensor& a, const Tensor& b);

}  // namespace lathe
