// Raw copy of values between dtypes, strides and devices. No gradients: ops/cast wraps it.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Copies src's values to dst, converted to dst's dtype; src broadcasts to dst's shape. Float →
/// integer truncates toward zero, float → half rounds to nearest even, anything → bool is `!= 0`.
/// src and dst must not overlap unless they are the same view.
/// throws: ShapeError if src does not broadcast; NoCudaError for a tensor on a GPU in a CPU build.
LATHE_API void copy_values(const Tensor& dst, const Tensor& src);

/// Like copy_values(), but only queues the copy on the GPU's current stream and does not wait for
/// it. After the call, the GPU may still read a pinned src, or write a pinned dst. (A pinned dst of
/// another dtype, shape or order of elements than src is complete after the call.) Do not touch
/// such a tensor until an event says that the copy
/// is done; freeing it is always allowed. On a GPU other than the first, the call waits for copies
/// from or to pinned memory.
LATHE_API void copy_values_async(const Tensor& dst, const Tensor& src);

/// dst = value, everywhere.
LATHE_API void fill_values(const Tensor& dst, Scalar value);

// The kernels behind them: both tensors are on one device.
namespace cpu {
void copy_elements(const Tensor& dst, const Tensor& src);
void fill_elements(const Tensor& dst, Scalar value);
}  // namespace cpu
namespace cuda {
void copy_elements(const Tensor& dst, const Tensor& src);
void fill_elements(const Tensor& dst, Scalar value);
}  // namespace cuda

}  // namespace lathe
