// CUPTI asks for buffers, fills them with records on a thread of its own, and gives them back. A
// record of an external correlation comes before those of the calls made under it; kernels and
// copies carry the number of their call. Contract: device_activity.h.
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_activity.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/cupti_functions.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/log.h"

namespace lathe::cuda {

namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr std::align_val_t kBufferAlignment{8};
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
};

struct Seen {
  DeviceActivity activity;
  uint32_t call;  // the number of the call that queued it
};

struct State {
  std::mutex mutex;
  std::vector<Seen> seen;
  std::unordered_map<uint32_t, uint64_t> range_of_call;
};

// Never destroyed: CUPTI's thread may end after static objects.
State& state() {
  static State& instance = *new State;
  return instance;
}

constinit std::atomic<int64_t (*)() noexcept> clock_ns{nullptr};
constinit std::atomic<bool> running{false};

std::string kernel_name(const char* mangled) {
  if (mangled == nullptr) return "kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : mangled;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy host to GPU";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy GPU to host";
    default: return "copy on the GPU";
  }
}

/// The times and places of a record; the kinds have these fields under the same names.
template <class Record>
void add(State& to, const Record& record, DeviceActivity::Kind kind, std::string name,
         uint64_t bytes) {
  DeviceActivity activity;
  activity.kind = kind;
  activity.name = std::move(name);
  activity.device = static_cast<int>(record.deviceId);
  activity.stream = record.streamId;
  activity.begin_ns = static_cast<int64_t>(record.start);
  activity.end_ns = static_cast<int64_t>(record.end);
  activity.bytes = static_cast<int64_t>(bytes);
  to.seen.push_back({std::move(activity), record.correlationId});
}

// The oldest form of each record whose fields lie where the later ones have them.
void take(State& to, const CUpti_Activity* record) {
  using Kind = DeviceActivity::Kind;
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& link = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
      to.range_of_call[link.correlationId] = link.externalId;
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      add(to, kernel, Kind::kKernel, kernel_name(kernel.name), 0);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      add(to, copy, Kind::kCopy, copy_name(copy.copyKind), copy.bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      add(to, fill, Kind::kFill, "fill", fill.bytes);
      break;
    }
    default: break;
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(::operator new(kBufferBytes, kBufferAlignment, std::nothrow));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  try {
    const std::lock_guard lock(state().mutex);
    CUpti_Activity* record = nullptr;
    while (filled > 0 &&
           cupti::functions().cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS)
      take(state(), record);
  } catch (...) {  // no memory: what follows in this buffer is missing
  }
  ::operator delete(buffer, kBufferAlignment);
}

uint64_t CUPTIAPI timestamp() { return static_cast<uint64_t>(clock_ns.load()()); }

void disable_all() {
  for (const CUpti_ActivityKind kind : kKinds) cupti::functions().cuptiActivityDisable(kind);
}

bool enable_all() {
  const cupti::Functions& f = cupti::functions();
  return f.cuptiActivityRegisterTimestampCallback(timestamp) == CUPTI_SUCCESS &&
         f.cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS &&
         std::ranges::all_of(kKinds, [&](CUpti_ActivityKind kind) {
           return f.cuptiActivityEnable(kind) == CUPTI_SUCCESS;
         });
}

}  // namespace

bool start_activities(int64_t (*now_ns)() noexcept) noexcept try {
  if (device_count() == 0) return false;
  clock_ns = now_ns;
  {
    const std::lock_guard lock(state().mutex);
    state().seen.clear();
    state().range_of_call.clear();
  }
  if (!enable_all()) {  // another tool may have it
    disable_all();
    warn_once("profiler: CUPTI", "profiler: CUPTI refuses; GPU times come from events");
    return false;
  }
  return running = true;
} catch (const std::exception& e) {
  warn_once("profiler: CUPTI", concat("profiler: GPU times come from events: ", e.what()));
  return false;
}

/// Waits for the GPUs that are in use, without the checks of cuda::synchronize: an error that a
/// kernel noted is for the program to see. A capture would be lost by it.
static void wait_for_devices() {
  for (int i = 0; i < device_count(); ++i) {
    const Device device(DeviceType::kCUDA, static_cast<int8_t>(i));
    if (memory_reserved(device) == 0 || capture_underway(device)) continue;
    const DeviceScope on(device);
    cudaDeviceSynchronize();
  }
}

std::vector<DeviceActivity> stop_activities() noexcept try {
  if (!running.exchange(false)) return {};
  wait_for_devices();
  cupti::functions().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  disable_all();
  const std::lock_guard lock(state().mutex);
  std::vector<DeviceActivity> out;
  for (Seen& seen : state().seen) {
    const auto at = state().range_of_call.find(seen.call);
    if (at != state().range_of_call.end()) seen.activity.range = at->second;
    out.push_back(std::move(seen.activity));
  }
  state().seen.clear();
  return out;
} catch (...) {
  return {};
}

void push_activity_range(uint64_t id) noexcept {
  if (running) {
    cupti::functions().cuptiActivityPushExternalCorrelationId(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
  }
}

void pop_activity_range() noexcept {
  if (running) {
    uint64_t id = 0;
    cupti::functions().cuptiActivityPopExternalCorrelationId(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
  }
}

}  // namespace lathe::cuda
