// The Autocast scopes and the state of each thread, one per kind of device.
#include "lathe/autograd/autocast.h"

#include <utility>

#include "lathe/autograd/cast_cache.h"
#include "lathe/core/error.h"

namespace lathe {

namespace {
constinit thread_local int t_depth = 0;  // open scopes, for any device
}  // namespace

Autocast::State& Autocast::state_of(DeviceType type) noexcept {
  constinit thread_local State cpu, cuda;
  return type == DeviceType::kCPU ? cpu : cuda;
}

Autocast::Autocast(Device device, DType dtype, bool enabled) : type_(device.type) {
  LATHE_CHECK(DTypeError, is_half(dtype), "autocast: expected f16 or bf16, got ", dtype);
  before_ = std::exchange(state_of(type_), State{enabled, dtype});
  ++t_depth;
}
Autocast::~Autocast() {
  state_of(type_) = before_;
  if (--t_depth == 0) amp::drop_casts();
}
bool Autocast::active() noexcept { return t_depth > 0; }

namespace amp {
bool autocast_enabled(Device device) noexcept { return Autocast::state_of(device.type).enabled; }
DType autocast_dtype(Device device) noexcept { return Autocast::state_of(device.type).dtype; }
}  // namespace amp

}  // namespace lathe
