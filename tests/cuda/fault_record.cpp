// The fault record of a build without the backend, whose kernels run at once; see
// core/gpu/device_fault.h.
#include "lathe/core/gpu/device_fault.h"

#include <utility>

namespace lathe::cuda {

namespace {
FaultReport g_report = {};
DeviceFault g_record = {0, &g_report};
}  // namespace

DeviceFault* device_fault(Device) { return &g_record; }

FaultReport take_fault(Device) {
  g_record.raised = 0;
  return std::exchange(g_report, FaultReport{});
}

}  // namespace lathe::cuda
