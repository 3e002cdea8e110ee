// What the distributions' sources share. Not part of the interface.
#pragma once

#include <initializer_list>
#include <string>

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// The parameters as tensors of one shape, dtype and device.
/// throws: DTypeError, ShapeError, DeviceError.
Tensors broadcast(const char* name, std::initializer_list<Param> params);

/// throws: ValueError that names the first element where `holds` is false:
/// "Normal: scale must be positive, got -1 at element 3 (scale: …)".
void check_each(const char* name, const char* what, const char* must, const Tensor& holds,
                const Tensor& values);

/// a log b, and 0 where both are 0.
Tensor xlogy(const Tensor& a, const Tensor& b);
/// x summed over its last `count` dimensions.
Tensor sum_rightmost(const Tensor& x, int count);
/// `a` followed by `b`.
Shape joined(const Shape& a, const Shape& b);
/// The first a.size() - count, and the last `count` sizes; 0 <= count <= a.size().
Shape without_last(const Shape& a, int count);
Shape last_of(const Shape& a, int count);
/// p clamped to [eps, 1 - eps] of its dtype, so that logarithms are finite.
Tensor clamped_probs(const Tensor& p);
/// Samples of (0, inf) in `dtype`: one that is too small for it becomes its least normal number.
Tensor above_zero(const Tensor& x, DType dtype);
/// The same of (0, 1): one that is too close to 1 becomes the number before 1.
Tensor between_zero_and_one(const Tensor& x, DType dtype);

}  // namespace lathe::distributions
