// The elements that a condition picks out (nonzero.cpp, made of other ops; on the CPU
// index_kernels/nonzero_cpu.cpp finds them).
// Any strides, 0-d and zero-size.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The coordinates of the elements that differ from 0, in row-major order. NaN counts as different
/// from 0. Waits for the device, because the size of the result depends on the values.
///   →  i64 [n, dimensions of x]
/// dtypes: any.   grad: none.
LATHE_API Tensor nonzero(const Tensor& x);

/// The elements of x where mask is true, in row-major order, as a tensor [n]. x and mask broadcast.
/// Waits for the device.
///   mask  bool
/// dtypes: any.   grad: x, twice differentiable.   amp: none, the result follows x.
/// throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/// A copy of x in which the elements where mask is true are replaced by source's elements, in
/// row-major order.
///   mask  bool, broadcasts to x's shape   source  any shape, x's dtype
/// dtypes: any.   grad: x, source, twice differentiable.   amp: none, the result follows x.
/// throws: ShapeError, DTypeError, DeviceError; IndexError if source has too few elements (on a GPU
/// the next call that waits for the device throws it).
LATHE_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

namespace cpu {
/// nonzero() of a bool tensor with at least one dimension, row-major.
Tensor true_coordinates(const Tensor& mask);
}  // namespace cpu

}  // namespace lathe
