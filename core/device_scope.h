// The device on which this thread's runtime calls act.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe::cuda {

/// { DeviceScope on(device); … }: calls of the CUDA runtime act on `device` until the scope ends.
/// `call` names the kernel that runs inside; memory taken there is recorded under this name. The
/// string must live for ever.
/// throws: NoCudaError; DeviceError if there is no such device or this build has no kernels for it.
class LATHE_API DeviceScope {
 public:
  [[nodiscard]] explicit DeviceScope(Device device, const char* call = nullptr);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;  // -1: it was current already
  const char* outer_call_;
};

/// The first GPU that this build has kernels for.
/// throws: NoCudaError if there is none.
Device first_usable_device();

/// The name that the innermost named scope was given, such as "relu_forward(x)"; null outside.
const char* current_call() noexcept;

}  // namespace lathe::cuda
