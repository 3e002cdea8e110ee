// Changing dtype, device or layout, and copying (cast.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// x converted to `dtype`, or x itself if it has that dtype. Also x.to(dtype).
/// Float → integer truncates toward zero; float → half rounds to nearest even.
/// grad: x, twice differentiable, where both dtypes are floating.
LATHE_API Tensor cast(const Tensor& x, DType dtype);

/// A copy of x on `device`, or x itself if it is already there. An NHWC tensor stays NHWC; any
/// other becomes row-major. Only a copy to the host waits for the device. Also x.to(device),
/// x.cpu(), x.cuda().
/// grad: x, twice differentiable.   throws: NoCudaError without a GPU.
LATHE_API Tensor to_device(const Tensor& x, Device device);

/// x in dense memory in the order `format`, or x itself if x already is dense in this order. With
/// one channel or one pixel, x's memory fits both orders. The result is then a view of x with the
/// strides of `format`, so that later ops keep that order. Also x.contiguous(format).
/// grad: x, twice differentiable.   throws: ShapeError for kChannelsLast unless x is 4-d.
LATHE_API Tensor contiguous(const Tensor& x, MemoryFormat format = kContiguous);

/// A copy of x in new memory, with x's stride order. Also x.clone().
/// grad: x, twice differentiable.
LATHE_API Tensor clone(const Tensor& x);

}  // namespace lathe
