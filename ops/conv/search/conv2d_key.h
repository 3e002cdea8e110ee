// The key of a convolution (conv/search/conv_key.h) as cuDNN computes it on a GPU: from its sizes
// alone, so that it can be made where there is no GPU.
#pragma once

#include "lathe/core/config.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/search/conv_key.h"

namespace lathe {

/// True for half types, and for f32 if set_tf32() is on.
LATHE_API bool conv2d_uses_tensor_cores(DType dtype);

/// The sizes that cuDNN is given: channels and filters in whole groups of 16 bytes where that lets
/// tensor cores work on them. Not in NCHW, where channels are not adjacent, nor with groups, each
/// of which would have to be padded.
LATHE_API Conv2dGeometry conv2d_padded(Conv2dGeometry sizes, MemoryFormat format, DType dtype);

/// A tensor that is dense in `format`. Its strides are those of the format, not what a dimension of
/// size 1 happens to have.
LATHE_API ConvTensor conv2d_tensor(const Shape& shape, MemoryFormat format, DType dtype,
                                   int64_t alignment = 16);

/// The key of a pass with the current settings, tensors dense in `format` and well aligned, without
/// a bias and a machine.
LATHE_API ConvKey conv2d_key(ConvPass pass, const Conv2dGeometry& sizes, MemoryFormat format,
                             DType dtype);

}  // namespace lathe
