// The events of marks, and for each GPU one event whose host time is known.
#include "lathe/core/hooks/device_marks.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/hooks/record.h"
#include "lathe/core/stream.h"

namespace lathe::profile {

namespace {

/// A point that host and GPU passed at the same time.
struct ClockBase {
  Device device;
  void* event;
  int64_t host_ns;
};

struct Shared {
  std::mutex mutex;
  SpareEvents spare;
  std::vector<ClockBase> bases;
};

// Never destroyed: threads may end after static objects.
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

auto base_of(Device device) {
  return std::ranges::find_if(shared().bases,
                              [&](const ClockBase& b) { return b.device == device; });
}

bool has_base(Device device) {
  const std::lock_guard lock(shared().mutex);
  return base_of(device) != shared().bases.end();
}

/// Waits without the checks of a wait: an error that a kernel noted is for the program to see.
void wait_for(Device device, void* event) {
  while (!cuda::query_event(device, event)) std::this_thread::yield();
}

/// The first mark of a GPU waits for it once: then both clocks are read together.
void make_base(Device device, Stream stream) {
  void* const event = cuda::create_event(device, true);
  cuda::record_event(event, stream);
  wait_for(device, event);
  const int64_t now = now_ns();
  const std::lock_guard lock(shared().mutex);
  shared().bases.push_back({device, event, now});
}

void* new_event(Device device, SpareEvents& spare) {
  const auto at = std::ranges::find_if(spare, [&](const auto& e) { return e.first == device; });
  if (at == spare.end()) return cuda::create_event(device, true);
  void* const event = at->second;
  *at = spare.back();
  spare.pop_back();
  return event;
}

}  // namespace

void* mark(Device device, SpareEvents& spare) noexcept {
  void* event = nullptr;
  try {
    const Stream stream = current_stream(device);
    if (cuda::capture_underway(device) || cuda::is_capturing(stream)) return nullptr;
    if (!has_base(device)) make_base(device, stream);
    event = new_event(device, spare);
    cuda::record_event(event, stream);
    return event;
  } catch (...) {  // a time that is missing must not end the training
    give_back(device, event);
    return nullptr;
  }
}

DeviceSpan span_of(Device device, void* begin, void* end) noexcept {
  DeviceSpan span;
  try {
    const std::lock_guard lock(shared().mutex);
    const auto base = base_of(device);
    if (base != shared().bases.end()) {
      wait_for(device, end);
      const auto at = [&](void* event) {
        return base->host_ns +
               static_cast<int64_t>(1e6 * cuda::elapsed_ms(device, base->event, event));
      };
      span.begin_ns = at(begin);
      span.end_ns = at(end);
      span.length_ns = static_cast<int64_t>(1e6 * cuda::elapsed_ms(device, begin, end));
    }
  } catch (...) {
    span = {};
  }
  give_back(device, begin);
  give_back(device, end);
  return span;
}

void give_back(Device device, void* event) noexcept {
  if (event == nullptr) return;
  try {
    const std::lock_guard lock(shared().mutex);
    shared().spare.emplace_back(device, event);
  } catch (...) {
    cuda::destroy_event(device, event);
  }
}

SpareEvents take_spare_events() noexcept {
  const std::lock_guard lock(shared().mutex);
  return std::exchange(shared().spare, {});
}

void forget_device_clocks() noexcept {
  const std::lock_guard lock(shared().mutex);
  for (const ClockBase& base : shared().bases) cuda::destroy_event(base.device, base.event);
  shared().bases.clear();
}

}  // namespace lathe::profile
