// The thread's current streams, one per device; see stream.h.
#include "lathe/core/stream.h"

#include <utility>

namespace lathe {

namespace {
constexpr int kMaxDevices = 64;
thread_local void* t_current[kMaxDevices] = {};  // of CUDA devices, by index

void** slot_of(Device device) noexcept {
  const bool has_queue = device.is_cuda() && device.index >= 0 && device.index < kMaxDevices;
  return has_queue ? &t_current[device.index] : nullptr;
}
}  // namespace

Stream current_stream(Device device) noexcept {
  void** slot = slot_of(device);
  return {slot == nullptr ? nullptr : *slot, device};
}

StreamScope::StreamScope(Stream stream) noexcept : before_(current_stream(stream.device)) {
  if (void** slot = slot_of(stream.device)) *slot = stream.native;
}

StreamScope::~StreamScope() {
  if (void** slot = slot_of(before_.device)) *slot = before_.native;
}

}  // namespace lathe
