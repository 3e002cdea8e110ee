// A check that many ops make of their operand.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// throws: DTypeError unless x is floating.
inline void check_floating(const char* op, const Tensor& x) {
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), op, ": expected a floating dtype (x: ", x, ")");
}

}  // namespace lathe
