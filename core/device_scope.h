// The device on which this thread's runtime calls act.
#pragma once

#include "lathe/core/device.h"

namespace lathe::cuda {

/// { DeviceScope on(device); … }: calls of the CUDA runtime act on `device` until the scope ends.
/// `call`, if given a string that lives for ever, is the kernel that runs within; memory taken
/// there carries its name. throws: NoCudaError, or DeviceError if there is no such device.
class DeviceScope {
 public:
  explicit DeviceScope(Device device, const char* call = nullptr);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;  // -1: it was current already
  const char* outer_call_;
};

/// "relu_forward(x)": what the innermost scope with a name was entered for; null outside of all.
const char* current_call() noexcept;

}  // namespace lathe::cuda
