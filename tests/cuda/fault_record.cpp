// The emulated device's fault record; see core/device_fault.h.
#include "lathe/core/device_fault.h"

namespace lathe::cuda {

DeviceFault* device_fault(Device) {
  static DeviceFault record = {};
  return &record;
}

}  // namespace lathe::cuda
