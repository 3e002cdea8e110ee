// The largest or smallest element along one dimension, and its index. argmax.cpp: checks and
// gradients; reduce_kernels/argmax_cpu.cpp and argmax_cuda.cu: kernels.
//   x      any shape, any dtype, any strides
//   →      x's shape without `dim`; with {.keepdim = true}, `dim` has size 1. Indices are i64.
// NaN counts as the extreme. If several elements are equally extreme, the first is taken.
// throws: IndexError (dimension out of range), ShapeError if `dim` (or the tensor) is empty.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The result of max(x, dim) and others: `auto [values, at] = max(x, 1);`
struct ValuesAndIndices {
  Tensor values, indices;
};

/// max() returns the largest element of each line along `dim` and its index, min() the smallest
/// one.
/// grad: x, twice differentiable; the gradient of a value goes to the element at its index.
LATHE_API ValuesAndIndices max(const Tensor& x, int64_t dim, ReduceOptions options = {});
LATHE_API ValuesAndIndices min(const Tensor& x, int64_t dim, ReduceOptions options = {});

/// argmax() returns the index of the largest element of each line along `dim`, argmin() that of the
/// smallest. Without `dim` they return the index in the flattened tensor, as a 0-d tensor; with
/// {.keepdim = true} this tensor has as many dimensions as x, all of size 1.
/// grad: none.
LATHE_API Tensor argmax(const Tensor& x);
LATHE_API Tensor argmax(const Tensor& x, ReduceOptions options);
LATHE_API Tensor argmax(const Tensor& x, int64_t dim, ReduceOptions options = {});
LATHE_API Tensor argmin(const Tensor& x);
LATHE_API Tensor argmin(const Tensor& x, ReduceOptions options);
LATHE_API Tensor argmin(const Tensor& x, int64_t dim, ReduceOptions options = {});

// Like the overloads above, with keepdim as true or false.
inline ValuesAndIndices max(const Tensor& x, int64_t dim, KeepDim auto keepdim) {
  return max(x, dim, {keepdim});
}
inline ValuesAndIndices min(const Tensor& x, int64_t dim, KeepDim auto keepdim) {
  return min(x, dim, {keepdim});
}
inline Tensor argmax(const Tensor& x, int64_t dim, KeepDim auto keepdim) {
  return argmax(x, dim, {keepdim});
}
inline Tensor argmin(const Tensor& x, int64_t dim, KeepDim auto keepdim) {
  return argmin(x, dim, {keepdim});
}

ValuesAndIndices Tensor::max(int64_t dim, KeepDim auto keepdim) const {
  return lathe::max(*this, dim, keepdim);
}
ValuesAndIndices Tensor::min(int64_t dim, KeepDim auto keepdim) const {
  return lathe::min(*this, dim, keepdim);
}

namespace cpu {
/// x is contiguous, [outer, n, inner]. Writes values (may be undefined) and indices, both
/// [outer, inner] and contiguous.
void extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
             int64_t inner);
}  // namespace cpu
namespace cuda {
void extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
             int64_t inner);
}  // namespace cuda

}  // namespace lathe
