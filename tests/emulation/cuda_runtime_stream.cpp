// Streams, events and captures of the emulated CUDA runtime; see cuda_runtime_machine.h.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cuda_runtime_machine.h"
#include "device_failure.h"
#include "kernel_access.h"
#include "lathe/core/cuda.h"
#include "launch_limits.h"

namespace lathe::emulation {

namespace {

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, std::vector<MemoryUse> uses) {
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t problem = capture_problem(stream); problem != cudaSuccess) {
    return result(problem);
  }
  if (kernel_fault().hit()) run = [] { machine().failed = true; };
  submit(*state, std::move(run), std::move(uses));
  return cudaSuccess;
}

/// The refusal of what would wait for a stream that is captured: the capture comes to nothing.
cudaError_t refuse(cudaStream_t stream) {
  const StreamState* const state = find_stream(stream);
  if (state != nullptr && is_recorded(*state)) machine().capture->broken = true;
  return result(kStreamCaptureUnsupported);
}

bool is_captured(cudaStream_t stream) {
  if (stream == nullptr) return false;
  const StreamState* const state = find_stream(stream);
  return state != nullptr && is_recorded(*state);
}

constexpr auto kCapturedEvent = static_cast<cudaError_t>(907);

/// An event of a capture is none that anybody outside could ask or wait for.
bool is_noted(const EventState& event) { return event.last && event.last->capture != 0; }

/// A launch that waits for its turn.
struct QueuedKernel {
  ErasedKernel kernel;
  dim3 grid, block;
  size_t shared_bytes;
  std::vector<std::byte> bytes;  // of the arguments, each aligned for anything
  std::vector<size_t> begins;    // of each argument

  void operator()() {
    std::vector<void*> arguments;
    for (const size_t begin : begins) arguments.push_back(&bytes[begin]);
    void* const* const pointers = arguments.data();
    std::optional<WatchedLaunch> watched;
    if constexpr (kHasCuda) watched.emplace(kernel.address, bytes, arguments);
    run_grid(kernel.address, grid, block, shared_bytes,
             [&] { kernel.call(kernel.address, pointers); });
  }
};

/// The live memory that the arguments point to, also from within structures.
std::vector<MemoryUse> uses_of(const QueuedKernel& launch,
                               std::span<const KernelArgument> arguments) {
  std::vector<MemoryUse> uses;
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (size_t at = 0; at + sizeof(void*) <= arguments[i].size; at += sizeof(void*)) {
      const void* memory = nullptr;
      std::memcpy(&memory, &launch.bytes[launch.begins[i] + at], sizeof memory);
      if (birth_at(memory) == 0) continue;
      uses.push_back({memory, launch.kernel.address, i + 1, at});
    }
  }
  return uses;
}

}  // namespace

cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> run) {
  const Call call;
  return enqueue(stream, std::move(run), {});
}

cudaError_t launch_kernel(ErasedKernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, std::span<const KernelArgument> arguments) {
  const cudaError_t problem = launch_problem(grid, block, shared_bytes);
  if (problem != cudaSuccess) return result(problem);
  if (launch_fault().hit()) return result(cudaErrorInvalidConfiguration);
  if (kHasCuda && runtime_probe().idle) return cudaSuccess;
  constexpr size_t kAlignment = alignof(std::max_align_t);  // what operator new gives
  QueuedKernel launch{kernel, grid, block, shared_bytes, {}, {}};
  for (const auto& [bytes, size] : arguments) {
    const size_t begin = launch.bytes.size();
    launch.begins.push_back(begin);
    launch.bytes.resize(begin + (size + kAlignment - 1) / kAlignment * kAlignment);
    std::memcpy(&launch.bytes[begin], bytes, size);
  }
  if constexpr (kHasCuda) {
    const Call call;
    const StreamState* const state = find_stream(stream);
    std::vector<MemoryUse> uses;
    if (state != nullptr && is_recorded(*state)) uses = uses_of(launch, arguments);
    return enqueue(stream, std::move(launch), std::move(uses));
  }
  launch();
  return cudaSuccess;
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  make_context();
  auto& handles = machine().handles;
  if (handles.empty()) handles.push_back(std::make_unique<StreamState>());
  auto state = std::move(handles.back());
  handles.pop_back();
  state->device = this_thread().device;
  state->number = ++machine().streams_made;
  state->blocking = (flags & cudaStreamNonBlocking) == 0;
  state->after = {};
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
  rest->number = stream->number;
  rest->queue.swap(stream->queue);
  rest->after = stream->after;
  for (const Operation& operation : rest->queue) {
    if (operation.record) operation.record->stream = rest.get();
  }
  machine().orphaned.push_back(std::move(rest));
  machine().handles.push_back(std::move(at->second));
  machine().streams.erase(at);
  --runtime_probe().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (capture_refuses() || is_captured(stream)) return refuse(stream);
  drain(*state);
  return waited();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(stream)) return refuse(stream);
  if (state->queue.empty()) {
    machine().known_done.join(state->after);
    return cudaSuccess;
  }
  const DeviceAccess access;  // whoever asks again and again gets on
  run_next(*state);
  return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  const std::shared_ptr<EventState> awaited = find_event(event);
  if (state == nullptr || awaited == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_noted(*awaited)) {
    std::optional<CaptureState>& capture = machine().capture;
    if (!capture || capture->number != awaited->last->capture) return result(kCapturedEvent);
    CaptureOrder& order = capture->order[state];
    for (const auto& [other, point] : awaited->last->noted)
      order[other] = std::max(order[other], point);
    order.try_emplace(state, 2 * capture->graph->nodes.size() + 1);  // without work, too
    return cudaSuccess;
  }
  if (is_captured(stream)) return result(kStreamCaptureUnsupported);
  if (awaited->last) wait_for(*state, awaited->last);
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  const Call call;
  if (find_stream(stream) == nullptr) return result(cudaErrorInvalidResourceHandle);
  const bool captured = is_captured(stream);
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *id = captured ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const Call call;
  std::swap(*mode, this_thread().capture_mode);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  make_context();
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
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  const std::shared_ptr<EventState> recorded = find_event(event);
  if (state == nullptr || recorded == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (flags == cudaEventRecordExternal) {  // a node of its own: each launch records the event
    if (!is_recorded(*state)) return result(cudaErrorInvalidValue);
    note(*state, [recorded](StreamState& launched) { recorded->last = record(launched); });
    return cudaSuccess;
  }
  if (is_recorded(*state)) {
    recorded->last = std::make_shared<EventRecord>();
    recorded->last->capture = machine().capture->number;
    recorded->last->noted = machine().capture->order[state];
    return cudaSuccess;
  }
  if (is_captured(stream)) return result(kStreamCaptureUnsupported);
  recorded->last = record(*state);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  const std::shared_ptr<EventState> state = find_event(event);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  if (is_noted(*state)) return result(kCapturedEvent);
  if (!state->last || state->last->done) {
    if (state->last) machine().known_done.join(state->last->after);
    return cudaSuccess;
  }
  const DeviceAccess access;  // whoever asks again and again gets on
  if (!state->last->stream->queue.empty()) run_next(*state->last->stream);
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  const std::shared_ptr<EventState> state = find_event(event);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  if (is_noted(*state)) return result(kCapturedEvent);
  if (const auto last = state->last) {
    const DeviceAccess access;
    while (!complete(*last)) let_others_call();
    machine().known_done.join(last->after);
  }
  return waited();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Call call;
  const std::shared_ptr<EventState> a = find_event(from), b = find_event(to);
  if (a == nullptr || b == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (!a->last || !b->last) return result(cudaErrorInvalidResourceHandle);
  if (!a->last->done || !b->last->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b->last->time - a->last->time).count();
  return cudaSuccess;
}
