// Streams and events: the CPU's part, and the calls of the GPU's part (core/gpu/stream_cuda.cpp).
#include "lathe/core/stream.h"

#include <chrono>
#include <utility>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/tensor.h"

namespace lathe {

namespace {
thread_local void* t_current[cuda::kMaxDevices] = {};  // streams of CUDA devices, by index

void** slot_of(Device device) noexcept {
  const bool has_queue = device.is_cuda() && device.index >= 0 && device.index < cuda::kMaxDevices;
  return has_queue ? &t_current[device.index] : nullptr;
}

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
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

OwnedStream::OwnedStream(Device device) : stream_{nullptr, device} {
  if (device.is_cuda()) stream_.native = cuda::create_stream(device);
}
OwnedStream::~OwnedStream() {
  if (stream_.native != nullptr) cuda::give_back_stream(stream_.device, stream_.native);
}
OwnedStream::OwnedStream(OwnedStream&& other) noexcept
    : stream_{std::exchange(other.stream_.native, nullptr), other.stream_.device} {}
OwnedStream& OwnedStream::operator=(OwnedStream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

void synchronize(Stream stream) {
  if (stream.device.is_cuda()) cuda::synchronize_stream(stream);
}

void record_stream(const Tensor& t, Stream stream) {
  const Storage& storage = *t.impl().storage;
  if (!stream.device.is_cuda() || storage.data() == nullptr) return;
  if (storage.pinned()) return cuda::record_pinned(storage.data(), stream);
  if (storage.device().is_cuda()) cuda::record_stream(storage.data(), storage.device(), stream);
}

Event::Event(Device device, EventOptions options) : device_(device) {
  if (device.is_cuda()) native_ = cuda::create_event(device, options.timing);
}
Event::~Event() {
  if (native_ != nullptr) cuda::destroy_event(device_, native_);
}
Event::Event(Event&& other) noexcept
    : device_(other.device_),
      native_(std::exchange(other.native_, nullptr)),
      cpu_ms_(other.cpu_ms_) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(native_, other.native_);
  std::swap(cpu_ms_, other.cpu_ms_);
  return *this;
}

void Event::record(Stream stream) {
  LATHE_CHECK(DeviceError, stream.device == device_, "event: made for ", device_,
              ", recorded on a stream of ", stream.device);
  if (native_ != nullptr) {
    cuda::record_event(native_, stream);
  } else {
    cpu_ms_ = now_ms();
  }
}
void Event::block(Stream stream) const {
  if (native_ == nullptr) return;
  if (stream.device.is_cuda()) {
    cuda::wait_event(stream, native_);
  } else {
    synchronize();
  }
}
bool Event::done() const { return native_ == nullptr || cuda::query_event(device_, native_); }
void Event::synchronize() const {
  if (native_ != nullptr) cuda::synchronize_event(device_, native_);
}

double elapsed_ms(const Event& from, const Event& to) {
  LATHE_CHECK(DeviceError, from.device_ == to.device_, "elapsed_ms: events of ", from.device_,
              " and ", to.device_);
  if (from.native_ != nullptr) return cuda::elapsed_ms(from.device_, from.native_, to.native_);
  return to.cpu_ms_ - from.cpu_ms_;
}

}  // namespace lathe
