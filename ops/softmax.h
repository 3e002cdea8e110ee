// softmax and log_softmax along one dimension. softmax.cpp: checks and gradients;
// row_kernels/softmax_cpu.cpp, softmax_cuda.cu: kernels.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// y = exp(x - m) / sum exp(x - m) along `dim`, with m = max(x). Each line of y sums to 1.
///   x  any shape   →  the same shape
/// A line gives NaN if all its elements are -inf, or if one is NaN or +inf.
/// dtypes: f16, bf16, f32, f64; computed in f32 or wider.
/// grad: x, twice differentiable.   amp: float.
/// throws: IndexError for a dimension out of range; DTypeError.
LATHE_API Tensor softmax(const Tensor& x, int64_t dim);

/// y = (x - m) - log(sum exp(x - m)). Finite for all finite x, while log(softmax(x)) may be -inf.
/// Shapes, dtypes, gradient and errors are those of softmax.
LATHE_API Tensor log_softmax(const Tensor& x, int64_t dim);

namespace cpu {
/// Along the middle dimension of x [outer, n, inner]; x and y are contiguous.
void softmax_forward(bool log, const Tensor& y, const Tensor& x, int64_t n, int64_t inner);
/// dx = y * (dy - sum dy*y), or for log: dx = dy - exp(y) * sum dy.
void softmax_backward(bool log, const Tensor& dx, const Tensor& y, const Tensor& dy, int64_t n,
                      int64_t inner);
}  // namespace cpu
namespace cuda {
void softmax_forward(bool log, const Tensor& y, const Tensor& x, int64_t n, int64_t inner);
void softmax_backward(bool log, const Tensor& dx, const Tensor& y, const Tensor& dy, int64_t n,
                      int64_t inner);
}  // namespace cuda

}  // namespace lathe
