// The gradients of parameters, as what changes them in place needs them.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::optim {

/// The gradients there are, all on one device, each in memory that may be written: an expanded one
/// is replaced by a copy.
/// throws: DeviceError for several devices, naming `op`.
Tensors writable_grads(const char* op, const Tensors& params);

}  // namespace lathe::optim
