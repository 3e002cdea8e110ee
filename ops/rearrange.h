// The same elements in another order, or repeated (rearrange.cpp, made of other ops).
// Any strides, 0-d and zero-size. The result is a copy, even if it equals x, unless the function's
// comment says that it is a view.
// dtypes: any.   grad: x, twice differentiable.   amp: none, the dtype stays.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// A copy of x in which the order of the elements along each of `dims` is reversed.
/// throws: IndexError (dimension out of range or repeated).
LATHE_API Tensor flip(const Tensor& x, const Dims& dims);

/// Moves elements cyclically; a negative shift moves backwards:
///   roll(x, shift)         moves the elements of the flattened x; the result has x's shape
///   roll(x, shift, dim)    moves slice i of dimension `dim` to position (i + shift) mod its size
///   roll(x, shifts, dims)  rolls dimension dims[k] by shifts[k], for each k
/// throws: IndexError for a dimension out of range; ShapeError unless both lists have the same
/// length.
LATHE_API Tensor roll(const Tensor& x, int64_t shift);
LATHE_API Tensor roll(const Tensor& x, int64_t shift, int64_t dim);
LATHE_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);

/// Repeats the whole of x repeats[d] times along each dimension d, like tiles. If `repeats` has
/// more numbers than x has dimensions, x first gets dimensions of size 1 in front.
///   →  shape[d] = repeats[d] * size of dimension d of x
/// throws: ShapeError for fewer repeats than dimensions, or a negative one.
LATHE_API Tensor repeat(const Tensor& x, const Dims& repeats);
/// Like repeat(). If `repeats` has fewer numbers than x has dimensions, 1s are added in front.
LATHE_API Tensor tile(const Tensor& x, const Dims& repeats);

/// repeat_interleave(x, repeats) repeats each element of the flattened x `repeats` times in a row.
/// With `dim`, each slice of this dimension is repeated.
/// throws: ValueError for negative repeats; IndexError for a dimension out of range; ShapeError if
/// the result is too large.
LATHE_API Tensor repeat_interleave(const Tensor& x, int64_t repeats);
LATHE_API Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
/// Repeats slice i of dimension `dim` repeats[i] times in a row. Waits for the device.
///   repeats  [size of dim], i64 or i32
/// throws: ValueError for a negative number; IndexError for a dimension out of range; ShapeError,
/// DTypeError.
LATHE_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, int64_t dim);

/// Shorthands for x.expand(other.shape()), x.view(other.shape()) and x.reshape(other.shape()).
/// throws: what these calls throw.
LATHE_API Tensor expand_as(const Tensor& x, const Tensor& other);
LATHE_API Tensor view_as(const Tensor& x, const Tensor& other);
LATHE_API Tensor reshape_as(const Tensor& x, const Tensor& other);

/// Views of the slices x[0], x[1], … along `dim`. The views do not have that dimension.
/// throws: IndexError for a dimension out of range, and for a 0-d tensor.
LATHE_API Tensors unbind(const Tensor& x, int64_t dim = 0);

/// A view of x in which dimension `from` is at position `to`. With lists, dimension from[i] is at
/// position to[i]. The other dimensions keep their order.
/// throws: IndexError for a dimension out of range or repeated; ShapeError unless both lists have
/// one length.
LATHE_API Tensor movedim(const Tensor& x, int64_t from, int64_t to);
LATHE_API Tensor movedim(const Tensor& x, const Dims& from, const Dims& to);

/// Turns channels into pixels: y[n, c, h*r + i, w*r + j] = x[n, c*r*r + i*r + j, h, w], r = factor.
///   x  [N,C*r*r,H,W] or without N   →  [N,C,H*r,W*r]
/// throws: ValueError (factor < 1), ShapeError.
/// ref: Shi et al. 2016 (arXiv:1609.05158).
LATHE_API Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// The inverse of pixel_shuffle: [N,C,H*r,W*r] → [N,C*r*r,H,W].
/// throws: as pixel_shuffle.
LATHE_API Tensor pixel_unshuffle(const Tensor& x, int64_t factor);

/// Another name for transpose.
LATHE_API Tensor swapaxes(const Tensor& x, int64_t a, int64_t b);

enum class MeshIndexing : uint8_t {
  kIJ,  // matrices: the first axis runs along dimension 0, the second along dimension 1
  kXY,  // plots: the first axis runs along dimension 1, the second along dimension 0
};
/// The coordinates of the points of a grid: result k holds each point's coordinate on axis k. The
/// results are views that cannot be written in place.
///   axes  [n0], [n1], … (0-d: one point)   →  for each axis a tensor [n0,n1,…] (kIJ) or
///         [n1,n0,…] (kXY)
/// grad: every axis, twice differentiable.
/// throws: ValueError for no axes; ShapeError, DTypeError, DeviceError.
LATHE_API Tensors meshgrid(const Tensors& axes, MeshIndexing indexing = MeshIndexing::kIJ);

/// Like gather (ops/index.h), except that x and index broadcast in all dimensions but `dim`. With
/// index = argsort(x, dim) it sorts x; with argmax(x, dim, true) it picks the largest elements.
///   index  i64 or i32, as many dimensions as x; negative ones count from the end
/// throws: as gather.
LATHE_API Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim);

}  // namespace lathe
