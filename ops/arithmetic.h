// Arithmetic in several steps (arithmetic.cpp, made of other ops). Tensors broadcast and are
// promoted as in ops/binary.h; half types are computed in f32 and rounded once.
// amp: none, the dtype stays.   throws: ShapeError, DTypeError, DeviceError, ValueError.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

/// input + (value * a) * b.
/// dtypes: numbers.   grad: input, a, b, twice differentiable.
LATHE_API Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);

/// input + (value * a) / b.
/// dtypes: floats.   grad: input, a, b, twice differentiable.
LATHE_API Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value = 1);

/// log(e^a + e^b), without overflow.
/// dtypes: floats.   grad: a, b, twice differentiable; where both are the same infinity, a gets the
/// whole gradient.
LATHE_API Tensor logaddexp(const Tensor& a, const Tensor& b);

struct NanToNumOptions {
  double nan = 0.0;
  std::optional<double> posinf = {}, neginf = {};  // default: the largest and lowest of x's dtype
};
/// x with numbers in place of NaN, inf and -inf. Integers and bool stay as they are. The result is
/// a copy.
/// dtypes: any.   grad: x, twice differentiable; 0 at what is replaced.
LATHE_API Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});

}  // namespace lathe
