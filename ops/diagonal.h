// Diagonals of matrices (diagonal.cpp).
//   offset  0: the main diagonal; positive: above it; negative: below it
// Any strides, zero-size.
// dtypes: any.   grad: x, twice differentiable.   amp: none, the dtype stays, except for trace.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct DiagonalOptions {
  int64_t offset = 0;
  int64_t dim1 = 0, dim2 = 1;  // the rows and the columns of the matrices
};
/// A view of the diagonals of x's matrices, whose rows are dimension dim1 and columns dim2.
///   →  x's shape without dim1 and dim2, then the length of the diagonal
/// throws: ShapeError if x has fewer than 2 dimensions; IndexError if dim1 or dim2 is out of range,
/// or both are the same.
LATHE_API Tensor diagonal(const Tensor& x, const DiagonalOptions& options = {});

struct DiagEmbedOptions {
  int64_t offset = 0;
  int64_t dim1 = -2, dim2 = -1;  // the rows and the columns, in the result
};
/// Matrices with the last dimension of x on a diagonal, and zeros elsewhere.
///   x  […,n]   →  […,n+|offset|,n+|offset|] for dim1 = -2, dim2 = -1
/// throws: ShapeError for a 0-d x; IndexError for dimensions out of range, or the same one twice.
LATHE_API Tensor diag_embed(const Tensor& x, const DiagEmbedOptions& options = {});

/// For a vector [n], the matrix with x on its diagonal. For a matrix [m,n], a copy of its diagonal.
/// throws: ShapeError unless x is 1-d or 2-d.
LATHE_API Tensor diag(const Tensor& x, int64_t offset = 0);

/// The sum of the main diagonal of a matrix; integers and bool → i64.
/// grad: x, twice differentiable.   amp: float.   throws: ShapeError unless x is 2-d.
LATHE_API Tensor trace(const Tensor& x);

}  // namespace lathe
