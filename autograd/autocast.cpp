// The thread's autocast state; see autocast.h.
#include "lathe/autograd/autocast.h"

#include <utility>

#include "lathe/core/error.h"

namespace lathe {

Autocast::State& Autocast::state() noexcept {
  thread_local State current;
  return current;
}

Autocast::Autocast(Device device, DType dtype, bool enabled) {
  LATHE_CHECK(DTypeError, is_half(dtype), "autocast: expected f16 or bf16, got ", dtype);
  before_ = std::exchange(state(), State{enabled, device.type, dtype});
}
Autocast::~Autocast() { state() = before_; }

namespace amp {
bool autocast_enabled(Device device) noexcept {
  const Autocast::State& now = Autocast::state();
  return now.enabled && now.device == device.type;
}
DType autocast_dtype() noexcept { return Autocast::state().dtype; }
}  // namespace amp

}  // namespace lathe
