// How a kernel notes a fault of its data: the device's side of core/gpu/device_fault.h.
#pragma once

#include <concepts>
#include <cstdint>

#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/gpu/launch.h"

namespace lathe {

/// Notes a fault; only the first report is kept. `op` is the launcher's text, passed to the kernel
/// as an argument. A literal in a kernel would be in device memory, so it does not compile here.
template <std::same_as<const char*> HostText>
__device__ inline void raise_fault(DeviceFault* fault, const HostText& op, int64_t position,
                                   int64_t value, int64_t limit) {
  if (atomicCAS(&fault->raised, 0u, 1u) != 0u) return;
  FaultReport* const report = fault->report;
  report->op = op;
  report->position = position;
  report->value = value;
  report->limit = limit;
  __threadfence_system();  // the host sees all of the above before the flag
  atomicExch(&report->raised, 1u);
}

}  // namespace lathe
