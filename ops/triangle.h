// Triangles of matrices (triangle.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// tril() returns a copy of x with zeros above the given diagonal of its last two dimensions,
/// triu() with zeros below it.
///   diagonal  0: the main one; positive: above it; negative: below it
/// Any strides.
/// dtypes: any.   grad: x, twice differentiable.
/// throws: ShapeError if x has fewer than 2 dimensions.
LATHE_API Tensor tril(const Tensor& x, int64_t diagonal = 0);
LATHE_API Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace lathe
