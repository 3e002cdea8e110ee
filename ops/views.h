// Views: other shapes and strides over the same storage (views.cpp). No values are copied. Writing
// to a view changes the tensor that it views. All take any dtype, any device, 0-d and zero-size.
// grad: x, twice differentiable.   amp: none, the dtype stays.
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// A view of x's elements in the shape `shape`. One size may be -1: it follows from the other
/// sizes.
/// throws: ShapeError if the number of elements differs, -1 is ambiguous, or x's strides do not
/// allow a view (reshape() copies in this case).
LATHE_API Tensor view(const Tensor& x, const Shape& shape);

/// view(x, shape) if x's strides allow it, else a copy.
LATHE_API Tensor reshape(const Tensor& x, const Shape& shape);

/// x with dimensions first … last (inclusive) joined to one; a 0-d tensor becomes [1].
LATHE_API Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);

/// x without its dimensions of size 1, or without `dim` if its size is 1.
LATHE_API Tensor squeeze(const Tensor& x);
LATHE_API Tensor squeeze(const Tensor& x, int64_t dim);

/// x with a new dimension of size 1 at position `dim` of the result.
LATHE_API Tensor unsqueeze(const Tensor& x, int64_t dim);

/// x with dimensions a and b exchanged.
LATHE_API Tensor transpose(const Tensor& x, int64_t a, int64_t b);

/// Dimension i of the result is dimension order[i] of x.
/// throws: ShapeError unless `order` is a permutation of all dimensions.
LATHE_API Tensor permute(const Tensor& x, const Dims& order);

/// A view of x in which dimensions of size 1 are repeated to the sizes in `shape`, without a copy
/// (stride 0). `shape` may add dimensions in front; -1 keeps a size. The result cannot be written
/// in place.
/// throws: ShapeError if `shape` has fewer dimensions than x, or another size for a dimension whose
/// size in x is not 1.
LATHE_API Tensor expand(const Tensor& x, const Shape& shape);

/// Slice `index` of dimension `dim`; the result lacks that dimension. A negative index counts from
/// the end.
/// throws: IndexError for a `dim` or `index` out of range.
LATHE_API Tensor select(const Tensor& x, int64_t dim, int64_t index);

/// Slices start … start+length-1 of dimension `dim`.
/// throws: IndexError for a dimension or slices out of range.
LATHE_API Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);

/// Slices start, start+step, … below stop of dimension `dim`; by default up to its end. As in
/// Python, negative numbers count from the end, and the range is clipped to the tensor.
/// throws: ValueError unless step > 0.
LATHE_API Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop = INT64_MAX,
                       int64_t step = 1);

/// Cuts x along `dim` into pieces of `size`; the last may be smaller. A dimension of size 0 gives
/// one piece.
/// throws: ValueError unless size > 0 (0 is allowed for a dimension of size 0).
LATHE_API Tensors split(const Tensor& x, int64_t size, int64_t dim = 0);
/// Cuts x along `dim` into pieces of the given sizes.
/// throws: ShapeError unless they add up to the size of `dim`.
LATHE_API Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
/// Cuts x along `dim` into at most `count` pieces of one size (rounded up; the last may be
/// smaller). A dimension of size 0 gives `count` pieces.
/// throws: ValueError unless count > 0.
LATHE_API Tensors chunk(const Tensor& x, int64_t count, int64_t dim = 0);

/// A view of x's storage with any shape and strides, in elements. `offset` counts from the start of
/// the storage. Elements may overlap; their gradients are added up.
/// throws: ShapeError (shape and strides differ in length, a negative stride), IndexError if an
/// element lies outside the storage.
LATHE_API Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides,
                            int64_t offset);

}  // namespace lathe
