// What max_pool2d and quantized_max_pool2d share: the rules for a window, and the size of the
// result. Defined in ../pool2d.cpp.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/pool2d.h"

namespace lathe {

/// Checks x, of any dtype, and the options for `op`. Replaces a stride of 0 by the kernel's size.
/// → {P,Q} of the result
/// throws: ShapeError, ValueError.
Pair max_pool2d_size(const char* op, const Tensor& x, MaxPool2dOptions& opt);

}  // namespace lathe
