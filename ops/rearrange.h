// The same elements in another order, or repeated (rearrange.cpp, made of other ops).
// Any strides, 0-d and zero-size. A comment says where the result is a view, which shares memory
// with x. All others are copies, also of an x that does not change.
// dtypes: any.   grad: x (twice).   amp: none, the dtype stays.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// x with the order of the elements along `dims` reversed. No dims: a copy of x.
/// throws: IndexError (dimension out of range or repeated).
LATHE_API Tensor flip(const Tensor& x, const Dims& dims);

/// Element i of `dim` moves to (i + shift) mod size; a negative shift moves backwards. Without a
/// dimension x is rolled as if it were flattened.
/// throws: IndexError; ShapeError unless there is a shift for each dimension.
LATHE_API Tensor roll(const Tensor& x, int64_t shift);
LATHE_API Tensor roll(const Tensor& x, int64_t shift, int64_t dim);
LATHE_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);

/// x laid out repeats[d] times along each dimension, as tiles; new dimensions come in front.
///   →  shape[d] = repeats[d] * size of x there
/// throws: ShapeError for fewer repeats than dimensions, or a negative one.
LATHE_API Tensor repeat(const Tensor& x, const Dims& repeats);
/// The same, but of fewer repeats than dimensions the missing ones in front are 1.
LATHE_API Tensor tile(const Tensor& x, const Dims& repeats);

/// Each element of `dim` repeats times in a row; without `dim`, of x flattened.
/// throws: ValueError for a negative number; IndexError.
LATHE_API Tensor repeat_interleave(const Tensor& x, int64_t repeats);
LATHE_API Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
/// Element i of `dim` repeats[i] times in a row. Waits for the device.
///   repeats  [size of dim], i64 or i32
/// throws: also ShapeError, DTypeError.
LATHE_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, int64_t dim);

/// x.expand(other.shape()), x.view(other.shape()) and x.reshape(other.shape()): views as those.
/// throws: as ops/views.h.
LATHE_API Tensor expand_as(const Tensor& x, const Tensor& other);
LATHE_API Tensor view_as(const Tensor& x, const Tensor& other);
LATHE_API Tensor reshape_as(const Tensor& x, const Tensor& other);

/// The slices x[0], x[1], … along `dim`, which goes away: views.
/// throws: IndexError, also for a 0-d tensor.
LATHE_API Tensors unbind(const Tensor& x, int64_t dim = 0);

/// Dimension from[i] moves to position to[i]; the others keep their order. A view.
/// throws: IndexError; ShapeError unless both lists have one length.
LATHE_API Tensor movedim(const Tensor& x, int64_t from, int64_t to);
LATHE_API Tensor movedim(const Tensor& x, const Dims& from, const Dims& to);

/// Channels become space: y[n, c, h*r + i, w*r + j] = x[n, c*r*r + i*r + j, h, w], r = factor.
///   x  [N,C*r*r,H,W] or without N   →  [N,C,H*r,W*r]
/// throws: ValueError (factor < 1), ShapeError.
/// ref: Shi et al. 2016 (arXiv:1609.05158).
LATHE_API Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// Its inverse: [N,C,H*r,W*r] → [N,C*r*r,H,W].
/// throws: as above.
LATHE_API Tensor pixel_unshuffle(const Tensor& x, int64_t factor);

/// Another name for transpose.
LATHE_API Tensor swapaxes(const Tensor& x, int64_t a, int64_t b);

enum class MeshIndexing : uint8_t {
  kIJ,  // matrices: the first axis runs along dimension 0, the second along dimension 1
  kXY,  // plots: the first axis runs along dimension 1, the second along dimension 0
};
/// The coordinates of a grid: result k holds axis k's number of each point. Views, which cannot be
/// written in place.
///   axes  [n0], [n1], … (0-d: one point)   →  as many tensors of shape [n0,n1,…], or [n1,n0,…]
/// grad: every axis (twice).
/// throws: ValueError for no axes; ShapeError, DTypeError, DeviceError.
LATHE_API Tensors meshgrid(const Tensors& axes, MeshIndexing indexing = MeshIndexing::kIJ);

/// gather (ops/index.h) where x and index broadcast in all dimensions but `dim`: with
/// argsort(x, dim, …) as index it sorts x, with argmax kept as a dimension it picks the maxima.
///   index  i64 or i32, as many dimensions as x
/// throws: as gather.
LATHE_API Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim);

}  // namespace lathe
