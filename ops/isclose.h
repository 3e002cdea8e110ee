// Whether two tensors are equal, or nearly so (isclose.cpp, made of other ops).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;  // true: NaN is close to NaN
};

/// |a - b| <= atol + rtol * |b|, element by element → bool. Equal elements are always close. An
/// infinity is close only to an equal infinity. Half types are compared in f32, integers in f64.
///   a, b  any shapes that broadcast
/// dtypes: any, both the same.   grad: none.
/// throws: ShapeError, DTypeError, DeviceError; ValueError unless rtol and atol are >= 0.
LATHE_API Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

/// True if all elements are close. Waits for the device.
/// throws: as isclose.
LATHE_API bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

/// True if a and b have equal shapes and equal elements; NaN does not equal NaN. Waits for the
/// device.
/// throws: DTypeError unless both have one dtype; DeviceError.
LATHE_API bool equal(const Tensor& a, const Tensor& b);

}  // namespace lathe
