// Raw copy of values between dtypes, strides and devices. No gradients: ops/cast wraps it.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// dst = src, converted to dst's dtype; src broadcasts to dst's shape. Float → integer truncates
/// toward zero, float → half rounds to nearest even, anything → bool is `!= 0`. The two must not
/// overlap unless they are the same view. throws: ShapeError if src does not broadcast;
/// NoCudaError.
LATHE_API void copy_values(const Tensor& dst, const Tensor& src);

/// The same, on the GPU's current stream, without waiting (on the first GPU; others wait for pinned
/// memory): pinned memory may be read, or as dst of src's dtype, shape and order written, after the
/// call, so leave it alone until an event says that the copy is done. Freeing it is always allowed.
LATHE_API void copy_values_async(const Tensor& dst, const Tensor& src);

/// dst = value, everywhere.
LATHE_API void fill_values(const Tensor& dst, Scalar value);

// Their kernels: both tensors on one device.
namespace cpu {
void copy_elements(const Tensor& dst, const Tensor& src);
void fill_elements(const Tensor& dst, Scalar value);
}  // namespace cpu
namespace cuda {
void copy_elements(const Tensor& dst, const Tensor& src);
void fill_elements(const Tensor& dst, Scalar value);
}  // namespace cuda

}  // namespace lathe
