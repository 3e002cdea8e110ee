// Fake quantisation (fake_quantize.cpp, made of other ops). A floating number is replaced by the
// nearest one that an 8-bit integer, or one of another range, can stand for. A model that is
// trained with it loses less accuracy when it is quantised. Names and values are PyTorch's.
//   q = round(x / scale) + zero_point, clamped to [quant_min, quant_max]; ties to even
//   →   (q - zero_point) * scale, of x's shape and dtype
// dtypes: floats; half types are computed in f32. NaN stays NaN.
// grad: x, twice differentiable, by the straight-through estimator: rounding counts as the
// identity. dx = dy where q lies in the range before it is clamped, else 0.
// amp: none, the result follows x.
// throws: ValueError for quant_min above quant_max, and for a zero_point outside these limits
// (not checked for a tensor on a GPU); DTypeError, ShapeError, DeviceError.
// ref: Jacob et al. 2018 (arXiv:1712.05877); for the gradient Bengio et al. 2013 (arXiv:1308.3432).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// One scale and zero point for all of x.
/// throws: ValueError also for a scale that is not above 0, and if scale or 1 / scale is not finite
/// in the dtype of the computation.
LATHE_API Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, int64_t zero_point,
                                                 int64_t quant_min, int64_t quant_max);
/// The same with tensors; it does not wait for their values on a GPU, and does not check scale's.
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
