// Changing dtype, device or layout, and copying.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// x converted to `dtype`; x itself if it has it already.
/// Float → integer truncates toward zero; float → half rounds to nearest even.
/// grad: x (twice), where both dtypes are floating.   Also x.to(dtype).
LATHE_API Tensor cast(const Tensor& x, DType dtype);

/// x on `device`; x itself if it is there already. NHWC stays NHWC, everything else becomes
/// row-major. Waits only for copies to the host. grad: x (twice).   throws: NoCudaError.   Also
/// x.to(device), x.cpu(), x.cuda().
LATHE_API Tensor to_device(const Tensor& x, Device device);

/// x in dense memory of the given order; x itself if it is so already (a view of x where one
/// channel or one pixel fits both orders: its strides are those of `format`, so that later ops keep
/// it). grad: x (twice).   throws: ShapeError for kChannelsLast unless 4-d.   Also
/// x.contiguous(format).
LATHE_API Tensor contiguous(const Tensor& x, MemoryFormat format = kContiguous);

/// A copy of x in memory of its own, with x's stride order. grad: x (twice).   Also x.clone().
LATHE_API Tensor clone(const Tensor& x);

}  // namespace lathe
