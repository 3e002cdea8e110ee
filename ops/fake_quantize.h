// Fake quantisation: numbers rounded as 8-bit (or other) integers would round them, for training a
// model that will be quantised (fake_quantize.cpp, made of other ops). The names and numbers are
// PyTorch's.
//   q = round(x / scale) + zero_point, clamped to [quant_min, quant_max]; ties to even
//   →   (q - zero_point) * scale, of x's shape and dtype
// dtypes: floats; half types are computed in f32. NaN stays NaN.
// grad: x, twice differentiable: dy where the integer lies in the range before it is clamped, else
// 0; as if rounding were the identity.
// amp: none, the result follows x.
// throws: ValueError for quant_min above quant_max, and for a zero_point outside of them (not
// noticed for a tensor on a GPU); DTypeError, ShapeError, DeviceError.
// ref: Jacob et al. 2018 (arXiv:1712.05877); for the gradient Bengio et al. 2013 (arXiv:1308.3432).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// One scale and zero point for all of x.
/// throws: ValueError also for a scale that is not above 0 and finite.
LATHE_API Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, int64_t zero_point,
                                                 int64_t quant_min, int64_t quant_max);
/// The same with tensors, whose values nobody waits for.
///   scale  one element, floating   zero_point  one element, i32 or i64
LATHE_API Tensor fake_quantize_per_tensor_affine(const Tensor& x, const Tensor& scale,
                                                 const Tensor& zero_point, int64_t quant_min,
                                                 int64_t quant_max);

/// A scale and zero point for each slice of x along `axis`.
///   scale  [size of axis], floating   zero_point  [size of axis], i32 or i64
/// throws: also IndexError for an axis out of range.
LATHE_API Tensor fake_quantize_per_channel_affine(const Tensor& x, const Tensor& scale,
                                                  const Tensor& zero_point, int64_t axis,
                                                  int64_t quant_min, int64_t quant_max);

}  // namespace lathe
