// Reading from, and adding at, positions given by a tensor of indices. index.cpp: checks and
// gradients; index_kernels/index_cpu.cpp, index_cuda.cu and index_sum_cuda.cu: kernels.
//   index  i64 or i32, every value in [0, size of x along dim)
// Any strides, 0-d (as one element) and zero-size. An index may repeat. index_add and scatter_add
// then add up the values for this index, in their order in `index`, half types in f32. The bits are
// the same in every run and for every number of threads.
// amp: none, the result follows x.
// throws: IndexError for an index out of range (naming op, value, position and range; nothing is
// changed) or a dimension out of range; ShapeError, DTypeError, DeviceError. On a GPU the next call
// that waits for the device throws the IndexError for an index.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The slices index[0], index[1], … of x along `dim`.
///   index  [K] or 0-d   →  x's shape with K along dim
/// dtypes: any.   grad: x, twice differentiable.
LATHE_API Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);

/// A copy of x with alpha times source's slice k added to slice index[k] along `dim`, for every k.
///   index  [K]   source  x's shape with K along dim, x's dtype   →  x's shape
/// dtypes: numbers.   grad: x, source, twice differentiable.
LATHE_API Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                           Scalar alpha = 1);

/// y[i,j,k] = x[i,index[i,j,k],k] (for dim = 1).
///   index  as many dimensions as x; each at most as long as x's, but `dim` may have any length
///   →      index's shape
/// dtypes: any.   grad: x, twice differentiable.
LATHE_API Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);

/// A copy of x with source[i,j,k] added to element [i,index[i,j,k],k] (for dim = 1).
///   index   as many dimensions as x; each at most as long as x's, but `dim` may have any length
///   source  x's dtype; no dimension shorter than index's; only the part of index's shape is read
///   →       x's shape
/// dtypes: numbers.   grad: x, source, twice differentiable.
LATHE_API Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index,
                             const Tensor& source);

/// Checks that all values of `index` (i64) are in [0, size). With size = -1 (on a GPU only), it
/// checks instead that all values are 0; `op` is then the whole text of the error.
/// throws: IndexError; on a GPU the next call that waits for the device throws it.
LATHE_API void check_index(const char* op, const Tensor& index, int64_t size);

/// Converts integers in [-size, size) to i64 in [0, size): negative ones count from the end.
/// throws: as check_index().
Tensor count_from_front(const char* op, const Tensor& index, int64_t size);

namespace cpu {
void check_index(const char* op, const Tensor& index, int64_t size);
/// y[:,k,:] = x[:,index[k],:], all [outer,…,inner] dense; index i64 [K] dense.
void index_select(const Tensor& y, const Tensor& x, const Tensor& index);
/// y[index[k],…] = source[k,…] for k = 0, 1, …: the last one stays. y is at least 1-d; source has
/// its dtype and the sizes of its other dimensions; any strides. index i64 [K] dense.
void index_write(const Tensor& y, const Tensor& index, const Tensor& source);
/// y = 0, then y[:,index[k],:] += x[:,k,:].
void index_sum(const Tensor& y, const Tensor& x, const Tensor& index);
/// y[…] = x[…,index,…] along dim; any strides, index i64 of y's shape.
void gather(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
/// y[…,index,…] = x along dim; of several, the last one in the order of index stays.
void scatter_write(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
/// y = 0, then y[…,index,…] += x along dim; x of index's shape.
void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
}  // namespace cpu
namespace cuda {
void check_index(const char* op, const Tensor& index, int64_t size);
void index_select(const Tensor& y, const Tensor& x, const Tensor& index);
void index_sum(const Tensor& y, const Tensor& x, const Tensor& index);
void gather(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
}  // namespace cuda

}  // namespace lathe
