// Special functions, element by element. special.cpp: gradients; elementwise_kernels/
// special_cpu.cpp, special_cuda.cu: kernels; special_math.h: the arithmetic, shared by host and
// device and done in f64 for every dtype. Any strides, 0-d and zero-size.
// dtypes: floats; integers and bool become the default dtype.   grad: x, any number of times.
// amp: float.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// ln |Γ(x)|; +inf at 0, at negative integers and at infinities.
LATHE_API Tensor lgamma(const Tensor& x);

/// The derivative of lgamma; NaN at negative integers and at -inf; -inf at 0; +inf at -0.
LATHE_API Tensor digamma(const Tensor& x);

/// Derivative n of digamma; n = 0 is digamma itself. Infinite at 0 and at negative integers.
/// throws: ValueError for n < 0.
LATHE_API Tensor polygamma(int64_t n, const Tensor& x);

/// The y with erf(y) = x; ±inf at ±1, NaN outside.
LATHE_API Tensor erfinv(const Tensor& x);

enum class SpecialOp : uint8_t { kLgamma, kDigamma, kPolygamma, kErfinv };

namespace cpu {
/// `n` is polygamma's. out and x are of one floating dtype and shape.
void special(SpecialOp op, const Tensor& out, const Tensor& x, int64_t n);
}  // namespace cpu
namespace cuda {
void special(SpecialOp op, const Tensor& out, const Tensor& x, int64_t n);
}  // namespace cuda

}  // namespace lathe
