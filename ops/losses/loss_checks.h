// What the losses of ops/losses/losses.h and ops/losses/margin_losses.h ask of their operands.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// throws: DTypeError unless both are floating.
inline void check_loss_dtypes(const char* op, const Tensor& x, const Tensor& y) {
  LATHE_CHECK(DTypeError, is_floating(x.dtype()) && is_floating(y.dtype()), op,
              ": expected floating dtypes (x: ", x, ", y: ", y, ")");
}

/// Without this check, a prediction [N,1] and a target [N] would broadcast to N*N losses, and the
/// model would learn the mean.
/// throws: ShapeError unless both have one shape.
inline void check_loss_shapes(const char* op, const Tensor& x, const Tensor& y) {
  LATHE_CHECK(ShapeError, x.shape() == y.shape(), op,
              ": x and y must have one shape; losses do not broadcast (x: ", x, ", y: ", y, ")");
}

/// throws: as check_loss_dtypes() and check_loss_shapes().
inline void check_loss_pair(const char* op, const Tensor& x, const Tensor& y) {
  check_loss_dtypes(op, x, y);
  check_loss_shapes(op, x, y);
}

}  // namespace lathe
