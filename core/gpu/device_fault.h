// What a kernel found wrong in its data: a label or an index out of range. The kernel notes the
// first case (core/gpu/raise_fault.cuh) and goes on (the element gets 0 or NaN); the host throws it at
// the next synchronisation, and the context survives.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"

namespace lathe {

/// What was found, in host memory that the GPU writes: reading it waits for nothing.
struct FaultReport {
  uint32_t raised;   // 1 as soon as the rest stands here
  const char* op;    // the host's text (a literal); a kernel passes it on and never reads it
  int64_t position;  // of the bad element, row-major
  int64_t value;     // found there; valid is 0 <= value < limit
  int64_t limit;
};

/// One record per device, in its memory, where kernels read it fast.
struct DeviceFault {
  uint32_t raised;  // 1 from the first case on; update kernels then change nothing
  FaultReport* report;
};

namespace cuda {

/// The record that kernels on `device` get. Never waits for queued work, and may be called during a
/// capture.
DeviceFault* device_fault(Device device);

/// What kernels on `device` noted by now, and clears it in the order of the current stream: what
/// was queued on it before still sees the fault. Does not wait: call it after a wait. During a
/// capture of the current stream, of which the clearing would become a part, it finds nothing.
FaultReport take_fault(Device device);

}  // namespace cuda
}  // namespace lathe
