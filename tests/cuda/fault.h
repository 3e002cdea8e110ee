// How kernel tests read what kernels noted; see core/device_fault.h.
#pragma once

#include "lathe/core/device_fault.h"
#include "on_device.h"

namespace lathe::test {

/// The record of the device that kernels of the tests run on, cleared. Call it before on_host(),
/// which throws what was noted.
inline DeviceFault take_fault() { return cuda::take_fault(kernel_device()); }

}  // namespace lathe::test
