// What only NVIDIA's management library knows: clocks, temperature, utilisation, other processes.
// It comes with the driver. It is opened when it is first needed, so that no program depends on it.
// The part of its C interface that we use is declared here, because toolkits made of pip wheels
// lack nvml.h.
// ref: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
#pragma once

#include <string>

#include "lathe/core/cuda.h"

namespace lathe::cuda::nvml {

struct PciAddress {
  int domain, bus, device;
};

/// Adds uuid, clocks, temperature, utilisation and processes. Leaves `info` as it is if NVML is
/// missing or refuses.
void complete(DeviceInfo& info, PciAddress address) noexcept;

/// "580.65.06", or "" if unknown.
std::string driver_version();

}  // namespace lathe::cuda::nvml
