// Views: other looks at the same storage. No values are copied; writing through a view changes what
// it views. All: any dtype, any device, 0-d and zero-size.   grad: x (twice).   No amp word: dtype
// stays.
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// The same elements as `shape`; at most one -1 is worked out.
/// throws: ShapeError if the count differs, -1 is ambiguous, or the strides do not allow it (then
/// use reshape).
LATHE_API Tensor view(const Tensor& x, const Shape& shape);

/// view where the strides allow it, else a copy.
LATHE_API Tensor reshape(const Tensor& x, const Shape& shape);

/// Dimensions first … last (inclusive) as one; a 0-d tensor becomes [1].
LATHE_API Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);

/// Without all dimensions of size 1, or without `dim` if its size is 1.
LATHE_API Tensor squeeze(const Tensor& x);
LATHE_API Tensor squeeze(const Tensor& x, int64_t dim);

/// With a new dimension of size 1 at `dim` of the result.
LATHE_API Tensor unsqueeze(const Tensor& x, int64_t dim);

/// Dimensions a and b exchanged.
LATHE_API Tensor transpose(const Tensor& x, int64_t a, int64_t b);

/// Dimension i of the result is dimension order[i] of x.   throws: ShapeError unless a permutation
/// of all.
LATHE_API Tensor permute(const Tensor& x, const Dims& order);

/// Dimensions of size 1 repeated to `shape` without a copy (stride 0); new ones in front; -1 keeps
/// a size. The result cannot be written in place.   throws: ShapeError.
LATHE_API Tensor expand(const Tensor& x, const Shape& shape);

/// Element `index` of dimension `dim`, which goes away. Negative counts from the end.   throws:
/// IndexError.
LATHE_API Tensor select(const Tensor& x, int64_t dim, int64_t index);

/// Elements start … start+length-1 of `dim`.   throws: IndexError.
LATHE_API Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);

/// Elements start, start+step, … below stop of `dim`. As in Python: negative counts from the end,
/// and the range is clipped to the tensor.   throws: ValueError unless step > 0.
LATHE_API Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop, int64_t step = 1);

/// Pieces of `size` along `dim`, the last possibly smaller; one of nothing.   throws: ValueError
/// unless size > 0, or 0 for a dimension of nothing.
LATHE_API Tensors split(const Tensor& x, int64_t size, int64_t dim = 0);
/// Pieces of the given sizes, any number of them, along `dim`.   throws: ShapeError unless they add
/// up.
LATHE_API Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
/// At most `count` pieces of equal size (rounded up) along `dim`; `count` of nothing.   throws:
/// ValueError unless count > 0.
LATHE_API Tensors chunk(const Tensor& x, int64_t count, int64_t dim = 0);

/// Any strided look at x's storage, in elements; `offset` from the storage's start. Elements may
/// overlap: then the gradient adds up.   throws: ShapeError (sizes differ in number, negative
/// stride), IndexError if it leaves the storage.
LATHE_API Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides,
                            int64_t offset);

}  // namespace lathe
