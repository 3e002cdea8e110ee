// The kernels' side of core/gpu/device_fault.h.
#pragma once

#include <concepts>
#include <cstdint>

#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/gpu/launch.h"

namespace lathe {

/// The first caller's report is kept. `op` is the launcher's text, handed to the kernel as an
/// argument: a literal in a kernel would lie in device memory, and does not compile here.
template <std::same_as<const char*> HostText>
__device__ inline void raise_fault(DeviceFault* fault, const HostText& op, int64_t position,
                                   int64_t value, int64_t limit) {
  if (atomicCAS(&fault->raised, 0u, 1u) != 0u) return;
  FaultReport* const report = fault->report;
  report->op = op;
  report->position = position;
  report->value = value;
  report->limit = limit;
  __threadfence_system();  // all that before the host sees the flag
  atomicExch(&report->raised, 1u);
}

}  // namespace lathe
