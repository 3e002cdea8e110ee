// The device on which this thread's runtime calls act.
#pragma once

#include "lathe/core/device.h"

namespace lathe::cuda {

/// { DeviceScope on(device); … }: calls of the CUDA runtime act on `device` until the scope ends.
/// throws: NoCudaError, or DeviceError if there is no such device.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;  // -1: it was current already
};

}  // namespace lathe::cuda
