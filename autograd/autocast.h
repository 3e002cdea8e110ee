// The thread's autocast state. What it does to an op's inputs is in ops/autocast.h.
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

/// { Autocast half(device, kF16); … }: in this scope, convolutions and matrix products on this kind
/// of device run in the half type; ops that need the range of f32 stay in f32. Parameters and their
/// gradients stay f32. Scopes nest. Scopes for the CPU and for GPUs are independent, and each
/// thread has its own. The half copy of a parameter is kept until the thread's outermost scope ends
/// or the parameter changes (cast_cache.h).
///   dtype    kF16 or kBF16
///   enabled  false: turns autocast off inside an outer scope
/// throws: DTypeError for any other dtype.
class LATHE_API Autocast {
 public:
  [[nodiscard]] explicit Autocast(Device device, DType dtype = kF16, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// True inside any scope on this thread, also one that turns autocast off.
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
