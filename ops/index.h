// Reading and adding at places that a tensor of indices names.
//   index  i64 or i32, every value in [0, size of x along dim)
// Any strides, 0-d (as one element) and zero-size. Repeated indices are read again, or added up, in
// the order of `index`: the same bits in every run and for every number of threads; half types are
// added up in f32. No amp word. throws: IndexError for a bad index (naming op, value, place and
// range; nothing is changed) or dimension,
//         ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The slices index[0], index[1], … of x along `dim`.
///   index  [K] or 0-d   →  x's shape with K along dim.   Any dtype.   grad: x (twice).
LATHE_API Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);

/// x with alpha * source's slice k added to slice index[k] along `dim`, for every k.
///   index  [K]   source  x's shape with K along dim, x's dtype   →  x's shape.   Numbers.   grad:
///   x, source (twice).
LATHE_API Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                           Scalar alpha = 1);

/// y[i,j,k] = x[i,index[i,j,k],k] (for dim = 1).
///   index  as many dimensions as x, none longer except dim   →  index's shape.   Any dtype. grad:
///   x (twice).
LATHE_API Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);

/// x with source[i,j,k] added to place [i,index[i,j,k],k] (for dim = 1).
///   index   as many dimensions as x, none longer except dim
///   source  no dimension shorter than index's (what is beyond is not read), x's dtype
///   →       x's shape.   Numbers.   grad: x, source (twice).
LATHE_API Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index,
                             const Tensor& source);

/// throws: IndexError unless all values of `index` (i64) are in [0, size). On CUDA the error comes
/// with the next synchronising call.
LATHE_API void check_index(const char* op, const Tensor& index, int64_t size);

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
