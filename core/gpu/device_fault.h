// How a kernel reports what is wrong in its data: a label or an index out of range. The kernel
// notes the first case (raise_fault.cuh) and goes on; the element becomes 0 or NaN. The host throws
// the error at the next synchronisation, and the CUDA context stays usable.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"

namespace lathe {

/// The first case, in host memory that the GPU writes, so that reading it waits for nothing.
struct FaultReport {
  uint32_t raised;   // 1 when the rest is written
  const char* op;    // a literal of the host; a kernel passes it on and never reads it
  int64_t position;  // of the bad element, row-major
  int64_t value;     // the bad value; valid is 0 <= value < limit
  int64_t limit;     // -1: `op` alone says what is wrong
};

/// One record per device, in the device's memory, where kernels read it fast.
struct DeviceFault {
  uint32_t raised;  // 1 after the first case; kernels that update parameters then change nothing
  FaultReport* report;
};

namespace cuda {

/// The record that kernels on `device` get. Never waits for queued work. May be called during a
/// capture.
DeviceFault* device_fault(Device device);

/// Returns what kernels on `device` have noted, and clears it in the order of the current stream:
/// work queued there earlier still sees the fault. Does not wait, so call it after a wait. While
/// the current stream is captured it finds nothing, because clearing would become part of the
/// graph.
FaultReport take_fault(Device device);

}  // namespace cuda
}  // namespace lathe
