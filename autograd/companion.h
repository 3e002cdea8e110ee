// A tensor's companion: what the op that made it computed along with it, for whoever reads it next.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// Keeps `companion` with y as long as y lives and its values stay as they are. It takes no part in
/// gradients. Where a convolution leaves the sums of its channels, a batch norm finds them.
LATHE_API void set_companion(const Tensor& y, const Tensor& companion);

/// Undefined if there is none, or if y was written since.
LATHE_API Tensor companion_of(const Tensor& y);

}  // namespace lathe::autograd
