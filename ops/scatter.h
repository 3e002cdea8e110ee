// Writing to positions given by tensors of indices: the results are new tensors. Where several
// elements go to one position, the last of them (row by row) stays, on every device. scatter.cpp:
// checks, and gradients by other ops; index_kernels/scatter_cpu.cpp, scatter_cuda.cu: kernels.
//   index  i64 or i32, in range
// Any strides, 0-d and zero-size.
// dtypes: any.   amp: none, the result follows x.
// throws: IndexError as ops/index.h; ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// x with source[i,j,k] at place [i,index[i,j,k],k] (for dim = 1). Adding instead: scatter_add,
/// ops/index.h.
///   index   as many dimensions as x, none longer except dim
///   source  x's dtype; no dimension shorter than index's; what lies beyond index's is not read
///   →       x's shape
/// grad: x, source (twice); 0 for what was written over.
LATHE_API Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// The same with one number everywhere.
/// grad: x (twice).   throws: also DTypeError if the value's category is higher than x's.
LATHE_API Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value);

/// The elements at these places of x, counted row by row as if x were flattened.
///   index  any shape; a negative one counts from the end   →  index's shape
/// grad: x (twice).
LATHE_API Tensor take(const Tensor& x, const Tensor& index);

struct PutOptions {
  bool accumulate = false;  // true: values are added to x, also those of one position
};
/// x with source's elements at these places, counted as in take.
///   index, source  as many elements; source has x's dtype   →  x's shape
/// grad: x, source (twice).
LATHE_API Tensor put(const Tensor& x, const Tensor& index, const Tensor& source,
                     const PutOptions& options = {});

/// x with values at x[indices[0], indices[1], …], as PyTorch's x[i, j] = values.
///   indices  one for each of x's leading dimensions, broadcast to one shape I; a negative one
///            counts from the end. Bool ones stand for the places where they are true, and have
///            the shape of the dimensions that they index; finding them waits for the device.
///   values   broadcast to I + the sizes that are not indexed; x's dtype
///   →        x's shape
/// grad: x, values (twice).   throws: also ValueError for no indices.
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
