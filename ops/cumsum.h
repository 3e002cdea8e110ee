// Running sums along one dimension.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// y[i] = x[0] + … + x[i] along `dim`. Integers and bool → i64; f32 and half types are summed in
/// f64 and f32.
///   x  any shape   →  the same shape
/// grad: x (twice).   amp: float.   throws: IndexError.
LATHE_API Tensor cumsum(const Tensor& x, int64_t dim);

namespace cpu {
/// Along the middle dimension of the contiguous x [outer, n, inner], from the last element if
/// `reverse`.
void cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse);
}  // namespace cpu
namespace cuda {
void cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse);
}  // namespace cuda

}  // namespace lathe
