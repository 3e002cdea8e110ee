// What a kernel found wrong in its data: a label or an index out of range. The kernel notes the
// first case and goes on (the element gets 0 or NaN); the host throws it at the next
// synchronisation, and the context survives.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"
#include "lathe/core/launch.h"

namespace lathe {

/// One record per device, in its memory. All zero: nothing is wrong.
struct DeviceFault {
  uint32_t raised;   // 1 from the first case on; update kernels then change nothing
  const char* op;    // the host's text (a literal); a kernel passes it on and never reads it
  int64_t position;  // of the bad element, row-major
  int64_t value;     // found there; valid is 0 <= value < limit
  int64_t limit;
};

/// Called by kernels. The first caller's record is kept. (A template, so that a file without
/// kernels may include this header.)
template <class Flag = unsigned>
__device__ void raise_fault(DeviceFault* fault, const char* op, int64_t position, int64_t value,
                            int64_t limit) {
  if (atomicCAS(static_cast<Flag*>(&fault->raised), 0u, 1u) != 0u) return;
  fault->op = op;
  fault->position = position;
  fault->value = value;
  fault->limit = limit;
}

namespace cuda {

/// The record that kernels on `device` get. Never waits.
DeviceFault* device_fault(Device device);

/// What kernels queued on `device`'s current stream noted, and clears it. Waits for them.
DeviceFault take_fault(Device device);

}  // namespace cuda
}  // namespace lathe
