// The extreme element along one dimension, and where it is.
//   x      any shape, any dtype, any strides
//   →      x's shape without `dim`; with {.keepdim = true} it stays, with size 1. Indices are i64.
// NaN counts as the extreme; of several equal extremes the first is taken.
// throws: IndexError (dimension out of range), ShapeError if there is nothing to choose from.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// auto [m, at] = max(x, 1);
struct ValuesAndIndices {
  Tensor values, indices;
};

/// grad: x (twice), through the values: all of it goes to the element at the index.
LATHE_API ValuesAndIndices max(const Tensor& x, int64_t dim, ReduceOptions options = {});
LATHE_API ValuesAndIndices min(const Tensor& x, int64_t dim, ReduceOptions options = {});

/// The index alone; without `dim` that in the flattened tensor: 0-d, or with {.keepdim = true}
/// every dimension with size 1.   grad: none.
LATHE_API Tensor argmax(const Tensor& x);
LATHE_API Tensor argmax(const Tensor& x, ReduceOptions options);
LATHE_API Tensor argmax(const Tensor& x, int64_t dim, ReduceOptions options = {});
LATHE_API Tensor argmin(const Tensor& x);
LATHE_API Tensor argmin(const Tensor& x, ReduceOptions options);
LATHE_API Tensor argmin(const Tensor& x, int64_t dim, ReduceOptions options = {});

namespace cpu {
/// Of x [outer, n, inner], contiguous: values (may be undefined) and indices [outer, inner],
/// contiguous.
void extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
             int64_t inner);
}  // namespace cpu
namespace cuda {
void extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
             int64_t inner);
}  // namespace cuda

}  // namespace lathe
