// How kernel tests read what kernels noted; see core/gpu/device_fault.h.
#pragma once

#include <thread>

#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/stream.h"
#include "on_device.h"

namespace lathe::test {

/// What kernels of the tests noted so far, cleared. Call it before on_host(), which throws it.
inline FaultReport take_fault() {
  if constexpr (kHasCuda) {  // a wait that throws nothing
    Event now(kernel_device());
    now.record(current_stream(kernel_device()));
    while (!now.done()) std::this_thread::yield();
  }
  return cuda::take_fault(kernel_device());
}

}  // namespace lathe::test
