// Reading from, and adding at, positions given by a tensor of indices. index.cpp: checks and
// gradients; index_kernels/index_cpu.cpp, index_cuda.cu and index_sum_cuda.cu: kernels.
//   index  i64 or i32, every value in [0, size of x along dim)
// Any strides, 0-d (as one element) and zero-size. A repeated index is read again, or its values
// are added up in the order of `index`: the same bits in every run and for every number of threads.
// Half types are added up in f32.
// amp: none, the result follows x.
// throws: IndexError for a bad index (naming op, value, position and range; nothing is changed) or
// a bad dimension; ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The slices index[0], index[1], … of x along `dim`.
///   index  [K] or 0-d   →  x's shape with K along dim
/// dtypes: any.   grad: x (twice).
LATHE_API Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);

/// x with alpha * source's slice k added to slice index[k] along `dim`, for every k.
///   index  [K]   source  x's shape with K along dim, x's dtype   →  x's shape
/// dtypes: numbers.   grad: x, source (twice).
LATHE_API Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                           Scalar alpha = 1);

/// y[i,j,k] = x[i,index[i,j,k],k] (for dim = 1).
///   index  as many dimensions as x, none longer except dim   →  index's shape
/// dtypes: any.   grad: x (twice).
LATHE_API Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);

/// x with source[i,j,k] added to place [i,index[i,j,k],k] (for dim = 1).
///   index   as many dimensions as x, none longer except dim
///   source  x's dtype; no dimension shorter than index's; what lies beyond index's is not read
///   →       x's shape
/// dtypes: numbers.   grad: x, source (twice).
LATHE_API Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index,
                             const Tensor& source);

/// throws: IndexError unless all values of `index` (i64) are in [0, size). On a GPU the next
/// synchronising call throws it; a size of -1 makes any value but 0 a fault, which `op` tells.
LATHE_API void check_index(const char* op, const Tensor& index, int64_t size);

/// Integers as i64, where a negative one counts from the end, all counted from the front.
/// throws: as check_index().
Tensor count_from_front(const char* op, const Tensor& index, int64_t size);

namespace cpu {
void check_index(const char* op, const Tensor& index, int64_t size);
/// y[:,k,:] = x[:,index[k],:], all [outer,…,inner] dense; index i64 [K] dense.
void index_select(const Tensor& y, const Tensor& x, const Tensor& index);
/// y = 0, then y[:,index[k],:] += x[:,k,:].
void index_sum(const Tensor& y, const Tensor& x, const Tensor& index);
/// y[…] = x[…,index,…] along dim; any strides, index i64 of y's shape.
void gather(const Tensor& y, const Tensor& x, int dim, const Tensor& index);
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
