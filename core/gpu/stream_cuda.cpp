// Streams, events and waits on GPUs. Contract: cuda_backend.h.
#include <atomic>
#include <mutex>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/hooks/watch.h"

namespace lathe {

namespace {
// Every thread that works on a GPU adds to these. Relaxed, because only the sums are read.
std::atomic<uint64_t> g_launches{0}, g_synchronizations{0};

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

/// The streams of one device that were given back, for the next users. None is destroyed: memory of
/// a stream is reused in the order of its work, and destroying it would not wait for that work.
struct IdleStreams {
  std::mutex mutex;
  std::vector<cudaStream_t> streams;  // oldest first; has room for all that were ever made
  size_t made = 0;
};
// Never destroyed: static objects may give their streams back after main().
IdleStreams& idle_streams(Device device) {
  static auto* const all = new IdleStreams[cuda::kMaxDevices];
  return all[device.index];
}
}  // namespace

namespace detail {
void count_launch() noexcept { g_launches.fetch_add(1, std::memory_order_relaxed); }
void count_synchronization() noexcept {
  g_synchronizations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace detail

namespace cuda {

Counters counters() noexcept {
  return {.launches = g_launches.load(std::memory_order_relaxed),
          .synchronizations = g_synchronizations.load(std::memory_order_relaxed),
          .driver_allocations = driver_allocations()};
}

void* create_stream(Device device) {
  const DeviceScope on(device);
  IdleStreams& idle = idle_streams(device);
  const std::lock_guard lock(idle.mutex);
  cudaStream_t stream = nullptr;
  if (!idle.streams.empty()) {
    stream = idle.streams.front();
    idle.streams.erase(idle.streams.begin());
    return stream;
  }
  idle.streams.reserve(idle.made + 1);
  LATHE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ++idle.made;
  return stream;
}

void give_back_stream(Device device, void* stream) noexcept {
  IdleStreams& idle = idle_streams(device);
  const std::lock_guard lock(idle.mutex);
  idle.streams.push_back(static_cast<cudaStream_t>(stream));
}

void synchronize_stream(Stream stream) {
  profile::before_wait("synchronize stream");
  const profile::OpRange range("synchronize stream", {}, profile::Kind::kSync);
  refuse_in_capture("synchronize", stream);
  const DeviceScope on(stream.device);
  detail::count_synchronization();
  LATHE_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
  check_fault(stream.device);
}

bool is_capturing(Stream stream) {
  if (stream.native == nullptr) return false;  // the default stream cannot be captured
  const DeviceScope on(stream.device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  LATHE_CUDA_CHECK(cudaStreamGetCaptureInfo(native(stream), &status, &id));
  return status != cudaStreamCaptureStatusNone;
}

void refuse_in_capture(const char* op, Stream stream) {
  if (!is_capturing(stream)) return;
  profile::before_wait(op);  // who watches for waits knows the program's op and line
  LATHE_FAIL(StateError, op,
             ": the host cannot wait for the GPU while its work is recorded into a graph, because "
             "nothing runs until the graph is launched");
}

void synchronize(Device device) {
  if (!device.is_cuda() || device_count() == 0) return;
  refuse_in_capture("synchronize", current_stream(device));
  profile::before_wait("synchronize device");
  const profile::OpRange range("synchronize device", {}, profile::Kind::kSync);
  const DeviceScope on(device);
  detail::count_synchronization();
  LATHE_CUDA_CHECK(cudaDeviceSynchronize());
  check_fault(device);
}

void* create_event(Device device, bool timing) {
  const DeviceScope on(device);
  cudaEvent_t event = nullptr;
  LATHE_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}
void destroy_event(Device, void* event) noexcept { cudaEventDestroy(event_of(event)); }

void record_event(void* event, Stream stream) {
  const DeviceScope on(stream.device);
  LATHE_CUDA_CHECK(cudaEventRecord(event_of(event), native(stream)));
}
void wait_event(Stream stream, void* event) {
  const DeviceScope on(stream.device);
  LATHE_CUDA_CHECK(cudaStreamWaitEvent(native(stream), event_of(event), 0));
}
bool query_event(Device, void* event) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  LATHE_CUDA_CHECK(error);
  return true;
}
void synchronize_event(Device device, void* event) {
  profile::before_wait("synchronize event");
  const profile::OpRange range("synchronize event", {}, profile::Kind::kSync);
  detail::count_synchronization();
  LATHE_CUDA_CHECK(cudaEventSynchronize(event_of(event)));
  check_fault(device);
}
double elapsed_ms(Device, void* from, void* to) {
  float milliseconds = 0;
  LATHE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)));
  return milliseconds;
}

}  // namespace cuda
}  // namespace lathe
