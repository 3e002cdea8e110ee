// The elements that a condition picks out (nonzero.cpp, made of other ops).
// Any strides, 0-d and zero-size.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The coordinates of the elements that differ from 0, row by row; NaN differs. Waits for the
/// device, because their number is the size of the result.
///   →  i64 [n, dimensions of x]
/// dtypes: any.   grad: none.
LATHE_API Tensor nonzero(const Tensor& x);

/// The elements of x where mask is true, row by row: [n]. x and mask broadcast. Waits for the
/// device.
///   mask  bool
/// dtypes: any.   grad: x (twice).   amp: none, the result follows x.
/// throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/// x with source's elements, from the first on, where mask is true, row by row.
///   mask  bool, broadcasts to x's shape   source  any shape, x's dtype
/// dtypes: any.   grad: x, source (twice).   amp: none, the result follows x.
/// throws: ShapeError, DTypeError, DeviceError; IndexError if source has too few elements.
LATHE_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

}  // namespace lathe
