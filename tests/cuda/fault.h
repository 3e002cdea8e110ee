// How kernel tests read what kernels noted; see core/device_fault.h.
#pragma once

#include <cstring>

#include "lathe/core/copy.h"
#include "lathe/core/device_fault.h"
#include "on_device.h"

namespace lathe::test {

/// The record of the device that kernels of the tests run on, cleared.
inline DeviceFault take_fault() {
  const Device device = on_device(zeros({1})).device();
  DeviceFault* record = cuda::device_fault(device);
  const Tensor bytes = from_blob(record, {sizeof(DeviceFault)}, kU8, device);
  const Tensor copy = on_host(bytes).clone();
  DeviceFault found;
  std::memcpy(&found, copy.raw_data(), sizeof(found));
  fill_values(bytes, 0);
  return found;
}

}  // namespace lathe::test
