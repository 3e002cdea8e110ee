// What the tests of loss scaling share.
#pragma once

#include <limits>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/grad_scaler.h"

namespace lathe::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The CPU, and a GPU if there is one.
inline std::vector<Device> devices() {
  if (cuda_is_available()) return {kCPU, Device(DeviceType::kCUDA)};
  return {kCPU};
}

inline Tensor param(const Tensor& values, Device device) {
  const Tensor p = values.to(device).clone().detach();
  p.requires_grad_();
  return p;
}

/// A loss that decides on the scaler's device.
inline void begin(optim::GradScaler& scaler, Device device) {
  scaler.scale(zeros({}, {.device = device}));
}

}  // namespace lathe::test
