// Running products along one dimension. cumprod.cpp: made of other ops on a GPU and in graphs;
// reduce_kernels/cumsum_cpu.cpp: the CPU's kernel.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// y[i] = x[0] * … * x[i] along `dim`. The CPU multiplies in order, in f64. On a GPU and in
/// compiled graphs, cumprod takes log2(n) passes over the data, and rounds each result at most
/// log2(n) times.
///   x  any shape   →  the same shape
/// dtypes: any; integers and bool → i64, which wraps. Half types are multiplied in f32.
/// grad: x, twice differentiable, also where x is 0.   amp: float.
/// throws: IndexError for a dimension out of range.
LATHE_API Tensor cumprod(const Tensor& x, int64_t dim);

namespace cpu {
/// Of x [outer, n, inner], contiguous, along n; y has the same shape.
void cumprod(const Tensor& y, const Tensor& x, int64_t n, int64_t inner);
}  // namespace cpu

}  // namespace lathe
