// The emulated device's fault record; see core/device_fault.h.
#include "lathe/core/device_fault.h"

#include <utility>

namespace lathe::cuda {

DeviceFault* device_fault(Device) {
  static DeviceFault record = {};
  return &record;
}

DeviceFault take_fault(Device device) {
  return std::exchange(*device_fault(device), DeviceFault{});
}

}  // namespace lathe::cuda
