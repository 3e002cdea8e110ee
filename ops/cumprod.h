// Running products along one dimension (cumprod.cpp, made of other ops).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// y[i] = x[0] * … * x[i] along `dim`. Takes log2(n) passes over the data, and rounds each result
/// at most log2(n) times.
///   x  any shape   →  the same shape
/// dtypes: any; integers and bool → i64, which wraps. Half types are multiplied in f32.
/// grad: x, twice differentiable, also where x is 0.   amp: float.
/// throws: IndexError for a dimension out of range.
LATHE_API Tensor cumprod(const Tensor& x, int64_t dim);

}  // namespace lathe
