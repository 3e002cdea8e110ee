// The gradients of parameters, for code that changes them in place (clipping, unscaling).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::optim {

/// The gradients that exist, all on one device and each in memory that may be written: an expanded
/// gradient is replaced by a copy.
/// throws: DeviceError for several devices, naming `op`.
Tensors writable_grads(const char* op, const Tensors& params);

}  // namespace lathe::optim
