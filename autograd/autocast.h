// Autocast: the scope in which ops choose a half type or f32, and each thread's state for it.
// ops/autocast.h says what autocast does to the inputs of an op.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"

namespace lathe {

namespace amp {
/// True inside an Autocast scope for this kind of device, on this thread.
LATHE_API bool autocast_enabled(Device device) noexcept;
/// The half type of the innermost scope for this kind of device.
LATHE_API DType autocast_dtype(Device device) noexcept;
}  // namespace amp

/// { Autocast half(device, kF16); … }: in this scope, convolutions and matrix products on devices
/// of `device`'s type (CPU or GPU) run in the half type. Parameters, their gradients, and ops that
/// need the range of f32 stay in f32. Scopes nest. Scopes for the CPU and for GPUs are independent,
/// and each thread has its own. Autocast keeps the half copy of a parameter until the thread's
/// outermost scope ends or the parameter changes.
///   dtype    kF16 or kBF16
///   enabled  false: turns autocast off inside an outer scope
/// throws: DTypeError unless `dtype` is kF16 or kBF16.
class LATHE_API Autocast {
 public:
  [[nodiscard]] explicit Autocast(Device device, DType dtype = kF16, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// True inside any Autocast scope of this thread, even one that turns autocast off.
  static bool active() noexcept;

 private:
  struct State {
    bool enabled = false;
    DType dtype = kF16;
  };
  friend bool amp::autocast_enabled(Device) noexcept;
  friend DType amp::autocast_dtype(Device) noexcept;
  static State& state_of(DeviceType type) noexcept;

  const DeviceType type_;
  State before_;
};

}  // namespace lathe
