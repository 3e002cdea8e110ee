// Writing to positions given by tensors of indices. The results are new tensors. If several
// elements go to one position, the last one in row-major order stays, on every device. scatter.cpp:
// checks, and gradients by other ops; index_kernels/scatter_cpu.cpp, scatter_cuda.cu: kernels.
//   index  i64 or i32, in range
// Any strides, 0-d and zero-size.
// dtypes: any.   amp: none, the result follows x.
// throws: IndexError as ops/index.h; ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// A copy of x with source[i,j,k] written to element [i,index[i,j,k],k] (for dim = 1). scatter_add
/// (ops/index.h) adds instead of writing.
///   index   as many dimensions as x; each at most as long as x's, but `dim` may have any length
///   source  x's dtype; no dimension shorter than index's; only the part of index's shape is read
///   →       x's shape
/// grad: x, source, twice differentiable; 0 for elements that were overwritten.
LATHE_API Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// A copy of x with the number `value` at every position that index names. dim and index are those
/// of scatter() with a source.
/// grad: x, twice differentiable.
/// throws: IndexError, ShapeError, DeviceError; DTypeError, also if value's category is higher than
/// x's; ValueError if x's integer dtype cannot hold value.
LATHE_API Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);

/// A copy of x with `value` in the slices index[0], index[1], … along `dim`.
///   index  [K] or 0-d; a negative one counts from the end
/// grad: x, twice differentiable; 0 for elements that were overwritten.
/// throws: what scatter() with a number throws.
LATHE_API Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);

/// A copy of x with source's slice k in place of slice index[k] along `dim`, for every k.
///   index  [K] or 0-d   source  x's shape with K along dim, x's dtype   →  x's shape
/// grad: x, source, twice differentiable; 0 for elements that were overwritten.
LATHE_API Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index,
                            const Tensor& source);

/// The elements of x at the positions in `index`, which count x's elements in row-major order.
///   index  any shape; a negative one counts from the end   →  index's shape
/// grad: x, twice differentiable.
LATHE_API Tensor take(const Tensor& x, const Tensor& index);

struct PutOptions {
  bool accumulate = false;  // true: adds the values to x; those of one position add up
};
/// A copy of x with source's elements written to the positions in `index`. Positions count x's
/// elements in row-major order.
///   index, source  equally many elements; source has x's dtype   →  x's shape
/// grad: x, source, twice differentiable.
LATHE_API Tensor put(const Tensor& x, const Tensor& index, const Tensor& source,
                     const PutOptions& options = {});

/// A copy of x after PyTorch's x[indices[0], indices[1], …] = values.
///   indices  one for each of x's leading dimensions, broadcast to one shape I; a negative index
///            counts from the end. A bool tensor stands for the positions where it is true. It has
///            the sizes of the dimensions that it indexes, and makes the call wait for the device.
///   values   x's dtype; broadcast to I + the sizes that are not indexed
///   →        x's shape
/// grad: x, values, twice differentiable.
/// throws: ValueError for no indices; IndexError, ShapeError, DTypeError, DeviceError.
LATHE_API Tensor index_put(const Tensor& x, const Tensors& indices, const Tensor& values,
                           const PutOptions& options = {});

namespace cpu {
/// last[p] = the largest k with places[k] = p, or -1. Both are i64 and contiguous, places in range.
void last_writer(const Tensor& last, const Tensor& places);
}  // namespace cpu
namespace cuda {
void last_writer(const Tensor& last, const Tensor& places);
}  // namespace cuda

}  // namespace lathe
