// The emulated CUDA runtime; see cuda_runtime_emulation.h. One lock guards everything: a test's
// machine need not be fast.
#include "cuda_runtime_emulation.h"
#include "captured_stream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device_arena.h"
#include "device_ranges.h"

namespace lathe::emulation {

struct EventState {
  StreamState* stream = nullptr;         // where it was recorded last
  uint64_t recorded = 0, completed = 0;  // how often; queued and done
  std::chrono::steady_clock::time_point time;
};

/// One entry of a stream's queue: work, an event to complete, or an event to wait for.
struct Operation {
  std::function<void()> run;
  std::shared_ptr<EventState> record, wait;
  uint64_t number = 0;  // of the event's recording
};

struct StreamState {
  int device = 0;
  std::deque<Operation> queue;
};

namespace {

constexpr int kMaxDevices = 16;

size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Machine {
  Machine() {
    const size_t devices = number_from_environment("LATHE_EMULATED_DEVICES", 1);
    const size_t bytes = number_from_environment("LATHE_EMULATED_MEMORY", size_t{16} << 30);
    for (size_t i = 0; i < devices && i < kMaxDevices; ++i) {
      arenas.push_back(std::make_unique<Arena>(bytes));
      default_streams.push_back(std::make_unique<StreamState>());
      default_streams.back()->device = static_cast<int>(i);
    }
  }

  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<StreamState>> default_streams;
  std::unordered_map<StreamState*, std::unique_ptr<StreamState>> streams;
  std::vector<std::unique_ptr<StreamState>> handles;   // of dead streams, for the next ones
  std::vector<std::unique_ptr<StreamState>> orphaned;  // what dead streams had left to do
  std::unordered_map<EventState*, std::shared_ptr<EventState>> events;
  std::map<char*, size_t> pinned;  // start → size
  std::exception_ptr error;        // thrown by a kernel, until somebody waits
};

/// Never destroyed: static objects of the program may free memory after main.
Machine& machine() {
  static Machine* const the_machine = new Machine;
  return *the_machine;
}

constexpr cudaError_t kStreamCaptureUnsupported = static_cast<cudaError_t>(900);
cudaStream_t g_captured = nullptr;  // of pretend_capture()
std::vector<std::function<void()>> g_captured_kernels;
thread_local cudaStreamCaptureMode t_capture_mode = cudaStreamCaptureModeGlobal;
thread_local int t_device = 0;
thread_local cudaError_t t_last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
  return error;
}

/// Whether a capture is underway that refuses this thread what might disturb it.
bool capture_refuses() {
  return g_captured != nullptr && t_capture_mode != cudaStreamCaptureModeRelaxed;
}

/// Entered by every call.
struct Call {
  Call() : lock(machine().mutex) { ++runtime_probe().calls; }
  std::lock_guard<std::recursive_mutex> lock;
};

struct DeviceAccess {
  DeviceAccess() {
    for (const auto& arena : machine().arenas) arena->open();
    device_ranges().open();
  }
  ~DeviceAccess() {
    for (const auto& arena : machine().arenas) arena->close();
    device_ranges().close();
  }
};

StreamState* find_stream(cudaStream_t stream) {
  Machine& m = machine();
  if (stream == nullptr) {
    return m.default_streams.empty() ? nullptr
                                     : m.default_streams[static_cast<size_t>(t_device)].get();
  }
  const auto at = m.streams.find(stream);
  return at == m.streams.end() ? nullptr : at->second.get();
}

std::shared_ptr<EventState> find_event(cudaEvent_t event) {
  const auto at = machine().events.find(event);
  return at == machine().events.end() ? nullptr : at->second;
}

void complete(EventState& event, uint64_t number);

/// Runs the next operation of a stream, and first whatever it has to wait for.
void run_next(StreamState& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.wait) complete(*operation.wait, operation.number);
  if (operation.run && !machine().error) {
    try {
      operation.run();
    } catch (...) {
      machine().error = std::current_exception();
    }
  }
  if (operation.record) {
    operation.record->completed = std::max(operation.record->completed, operation.number);
    operation.record->time = std::chrono::steady_clock::now();
  }
}

void complete(EventState& event, uint64_t number) {
  while (event.completed < number && event.stream != nullptr && !event.stream->queue.empty()) {
    run_next(*event.stream);
  }
}

void drain(StreamState& stream) {
  const DeviceAccess access;
  while (!stream.queue.empty()) run_next(stream);
}

void drain_all() {
  for (const auto& stream : machine().default_streams) drain(*stream);
  for (const auto& [handle, stream] : machine().streams) drain(*stream);
  for (const auto& stream : machine().orphaned) drain(*stream);
}

/// Where a GPU would report a failed kernel, its exception appears.
cudaError_t waited() {
  if (machine().error) std::rethrow_exception(std::exchange(machine().error, nullptr));
  return cudaSuccess;
}

bool on_device(const void* memory, size_t bytes) {
  return device_ranges().holds(memory, bytes) ||
         std::ranges::any_of(machine().arenas,
                             [&](const auto& arena) { return arena->holds(memory, bytes); });
}

bool is_pinned(const void* memory) {
  char* p = const_cast<char*>(static_cast<const char*>(memory));
  auto at = machine().pinned.upper_bound(p);
  if (at == machine().pinned.begin()) return false;
  --at;
  return p < at->first + at->second;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 StreamState& stream) {
  const bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);
  const bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (to_device != wants_to || from_device != wants_from)) {
    return cudaErrorInvalidValue;
  }
  const auto enqueue = [&stream](std::function<void()> run) {
    stream.queue.push_back({.run = std::move(run), .record = {}, .wait = {}});
  };
  if (to_device && !from_device && !is_pinned(from)) {  // pageable memory is read at once
    const auto* first = static_cast<const unsigned char*>(from);
    enqueue([to, bytes = std::vector<unsigned char>(first, first + bytes)] {
      std::memcpy(to, bytes.data(), bytes.size());
    });
    return cudaSuccess;
  }
  enqueue([to, from, bytes] { std::memmove(to, from, bytes); });
  if (!to_device && !is_pinned(to)) {  // pageable memory is written before the call returns
    drain(stream);
    return waited();
  }
  return cudaSuccess;
}

}  // namespace

RuntimeProbe& runtime_probe() {
  static RuntimeProbe probe;
  return probe;
}

std::unique_lock<std::recursive_mutex> enter_machine() {
  std::unique_lock lock(machine().mutex);
  ++runtime_probe().calls;
  return lock;
}

size_t free_bytes_of(int device) {
  const Arena& arena = *machine().arenas[static_cast<size_t>(device)];
  return arena.bytes() - arena.live_bytes() - device_ranges().bytes_of(device);
}

void pretend_capture(cudaStream_t stream) {
  const Call call;
  g_captured = stream;
  if (stream != nullptr) g_captured_kernels.clear();
}

void replay_capture(cudaStream_t stream) {
  const Call call;
  for (const auto& run : g_captured_kernels) {
    find_stream(stream)->queue.push_back({.run = run, .record = {}, .wait = {}});
  }
}

cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> run) {
  const Call call;
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream == g_captured && stream != nullptr) g_captured_kernels.push_back(run);
  state->queue.push_back({.run = std::move(run), .record = {}, .wait = {}});
  return cudaSuccess;
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

cudaError_t cudaGetLastError() { return std::exchange(t_last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return t_last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorCudartUnloading: return "cudaErrorCudartUnloading";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  }
  return "an unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call;
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call;
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  *count = static_cast<int>(machine().arenas.size());
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  const Call call;
  *device = t_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().arenas.size())) {
    return result(cudaErrorInvalidDevice);
  }
  t_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call;
  if (device < 0 || device >= static_cast<int>(machine().arenas.size())) {
    return result(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device %d", device);
  properties->totalGlobalMem = machine().arenas[static_cast<size_t>(device)]->bytes();
  properties->major = 9;
  properties->multiProcessorCount = 1;
  properties->pciBusID = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const Call call;
  switch (attribute) {
    case cudaDevAttrClockRate: *value = 1'000'000; break;
    case cudaDevAttrMultiProcessorCount: *value = 1; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  if (g_captured != nullptr) return result(kStreamCaptureUnsupported);
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  drain_all();
  return waited();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Call call;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  const auto& arena = *machine().arenas[static_cast<size_t>(t_device)];
  *total = arena.bytes();
  *free = free_bytes_of(t_device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Call call;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!runtime_probe().malloc_fault.hit() && bytes <= free_bytes_of(t_device)) {
    *memory = machine().arenas[static_cast<size_t>(t_device)]->allocate(bytes);
  }
  if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
  runtime_probe().device_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const Call call;
  if (memory == nullptr) return cudaSuccess;
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  drain_all();  // a free waits for the device
  for (const auto& arena : machine().arenas) {
    const size_t before = arena->live_bytes();
    if (!arena->deallocate(memory)) continue;
    runtime_probe().device_bytes -= before - arena->live_bytes();
    return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const Call call;
  *memory = nullptr;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  if (!runtime_probe().malloc_fault.hit()) {
    *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  }
  if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xA5, bytes);
  machine().pinned.emplace(static_cast<char*>(*memory), bytes);
  runtime_probe().pinned_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const Call call;
  if (memory == nullptr) return cudaSuccess;
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  const auto at = machine().pinned.find(static_cast<char*>(memory));
  if (at == machine().pinned.end()) return result(cudaErrorInvalidValue);
  drain_all();
  runtime_probe().pinned_bytes -= at->second;
  machine().pinned.erase(at);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Call call;
  *attributes = {.type = on_device(memory, 0) ? cudaMemoryTypeDevice
                         : is_pinned(memory)  ? cudaMemoryTypeHost
                                              : cudaMemoryTypeUnregistered};
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Call call;
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  return bytes == 0 ? cudaSuccess : result(copy(to, from, bytes, kind, *state));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Call call;
  if (!on_device(memory, bytes)) return result(cudaErrorInvalidValue);
  return enqueue_kernel(stream, [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Call call;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  auto& handles = machine().handles;
  if (handles.empty()) handles.push_back(std::make_unique<StreamState>());
  auto state = std::move(handles.back());
  handles.pop_back();
  state->device = t_device;
  *stream = state.get();
  machine().streams.emplace(*stream, std::move(state));
  ++runtime_probe().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call;
  const auto at = machine().streams.find(stream);
  if (at == machine().streams.end()) return result(cudaErrorInvalidResourceHandle);
  auto rest = std::make_unique<StreamState>();  // the call does not wait: its work goes on
  rest->device = stream->device;
  rest->queue.swap(stream->queue);
  for (const auto& [handle, event] : machine().events) {
    if (event->stream == stream) event->stream = rest.get();
  }
  machine().orphaned.push_back(std::move(rest));
  machine().handles.push_back(std::move(at->second));
  machine().streams.erase(at);
  --runtime_probe().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call;
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (capture_refuses() || (stream != nullptr && stream == g_captured)) {
    return result(kStreamCaptureUnsupported);
  }
  drain(*state);
  return waited();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Call call;
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (state->queue.empty()) return cudaSuccess;
  const DeviceAccess access;  // whoever asks again and again gets on
  run_next(*state);
  return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  StreamState* state = find_stream(stream);
  const std::shared_ptr<EventState> waited_for = find_event(event);
  if (state == nullptr || waited_for == nullptr) return result(cudaErrorInvalidResourceHandle);
  state->queue.push_back(
      {.run = {}, .record = {}, .wait = waited_for, .number = waited_for->recorded});
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  const Call call;
  if (find_stream(stream) == nullptr) return result(cudaErrorInvalidResourceHandle);
  const bool captured = stream != nullptr && stream == g_captured;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *id = captured ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const Call call;
  std::swap(*mode, t_capture_mode);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Call call;
  if (machine().arenas.empty()) return result(cudaErrorNoDevice);
  auto state = std::make_shared<EventState>();
  *event = state.get();
  machine().events.emplace(*event, std::move(state));
  ++runtime_probe().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call;
  if (machine().events.erase(event) == 0) return result(cudaErrorInvalidResourceHandle);
  --runtime_probe().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  StreamState* state = find_stream(stream);
  const std::shared_ptr<EventState> recorded = find_event(event);
  if (state == nullptr || recorded == nullptr) return result(cudaErrorInvalidResourceHandle);
  recorded->stream = state;
  state->queue.push_back(
      {.run = {}, .record = recorded, .wait = {}, .number = ++recorded->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call;
  const std::shared_ptr<EventState> state = find_event(event);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (g_captured != nullptr) return result(kStreamCaptureUnsupported);
  if (state->completed >= state->recorded) return cudaSuccess;
  const DeviceAccess access;  // whoever asks again and again gets on
  if (state->stream != nullptr && !state->stream->queue.empty()) run_next(*state->stream);
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  const std::shared_ptr<EventState> state = find_event(event);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  {
    const DeviceAccess access;
    complete(*state, state->recorded);
  }
  return waited();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Call call;
  const std::shared_ptr<EventState> a = find_event(from), b = find_event(to);
  if (a == nullptr || b == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (a->completed < a->recorded || b->completed < b->recorded) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b->time - a->time).count();
  return cudaSuccess;
}
