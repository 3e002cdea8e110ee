// Running sums along one dimension. cumsum.cpp: checks and gradient; reduce_kernels/cumsum_cpu.cpp,
// cumsum_cuda.cu.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// y[i] = x[0] + … + x[i] along `dim`.
///   x  any shape   →  the same shape
/// dtypes: any; integers and bool → i64. Half types are summed in f32, f32 in f64.
/// grad: x, twice differentiable.   amp: float.
/// throws: IndexError for a dimension out of range.
LATHE_API Tensor cumsum(const Tensor& x, int64_t dim);

namespace cpu {
/// Sums along the middle dimension of x [outer, n, inner], which is contiguous. With `reverse`, the
/// sums start at the last element.
void cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse);
}  // namespace cpu
namespace cuda {
void cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse);
}  // namespace cuda

}  // namespace lathe
