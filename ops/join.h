// Joining tensors. Any dtypes (the result has the one that holds all), any strides, zero-size
// parts; no amp word. Values are moved by core/copy, on any device.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The parts one after another along `dim`; their other sizes must be equal. A part of shape [0] is
/// skipped. The result is NHWC where all parts are. grad: every part (twice).   throws: ValueError
/// for no parts, ShapeError, DeviceError, IndexError.
LATHE_API Tensor cat(const Tensors& parts, int64_t dim = 0);

/// The parts, all of one shape, along a new dimension `dim` of the result.
/// grad: every part (twice).   throws: ValueError for no parts, ShapeError, DeviceError,
/// IndexError.
LATHE_API Tensor stack(const Tensors& parts, int64_t dim = 0);

}  // namespace lathe
