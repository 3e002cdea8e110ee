// Views with a gradient: the same numbers in another shape or order. A view is a linear map y = A x
// that moves numbers. The gradient of a linear map is its transpose, dx = A^T dy: if A moves x_j to
// y_i, A^T moves dy_i back to dx_j.
#pragma once

#include "broadcast.h"

namespace tiny {

/// x if it is row-major, else a copy that is. An op whose loops need row-major operands calls
/// contiguous(detach(x)): the tape records the op, and not the copy as well.
inline Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  return record("contiguous", copy_of(x), {x},
                [](const Tensor& dy, const Needs&) { return std::vector{dy}; });
}

/// The same elements in row-major order in another shape. A view if x is row-major, else a copy.
/// throws: ShapeError if the number of elements differs.
inline Tensor reshape(const Tensor& x, const Shape& shape) {
  check<ShapeError>(numel_of(shape) == x.numel(), "reshape: ", x.shape(), " has ", x.numel(),
                    " elements, ", shape, " has ", numel_of(shape));
  const Tensor dense = contiguous(x);
  const Tensor y = dense.as_strided(shape, contiguous_strides(shape), dense.offset());
  return record("reshape", y, {dense}, [from = x.shape()](const Tensor& dy, const Needs&) {
    return std::vector{reshape(dy, from)};
  });
}

/// Swaps two dimensions: their sizes and their strides.
/// throws: ShapeError if x has too few dimensions.
inline Tensor transpose(const Tensor& x, size_t a = 0, size_t b = 1) {
  check<ShapeError>(std::max(a, b) < x.ndim(), "transpose: dimensions ", a, " and ", b, " of ",
                    x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return record(
      "transpose", x.as_strided(shape, strides, x.offset()), {x},
      [a, b](const Tensor& dy, const Needs&) { return std::vector{transpose(dy, a, b)}; });
}

/// The indices begin … end-1 of one dimension.
/// throws: ShapeError if x lacks the dimension or the indices.
inline Tensor slice(const Tensor& x, size_t dim, int64_t begin, int64_t end) {
  check<ShapeError>(dim < x.ndim() && 0 <= begin && begin <= end && end <= x.dim(dim),
                    "slice: ", begin, " to ", end, " of dimension ", dim, " of ", x.shape());
  Shape shape = x.shape();
  shape[dim] = end - begin;
  const Tensor y = x.as_strided(shape, x.strides(), x.offset() + begin * x.strides()[dim]);
  // The elements that are not in the slice have no influence: their gradient is 0.
  return record("slice", y, {x},
                [from = x.shape(), dim, begin, end](const Tensor& dy, const Needs&) {
                  const Tensor dx(from);
                  Tensor part = slice(dx, dim, begin, end);
                  copy_(part, dy);
                  return std::vector{dx};
                });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/views.h: permute, unfold, steps; reshape() copies only where strides cannot say the shape.
