// Streams and events: queues of device work, and points in them. The CPU has one queue, and its
// work is done when the call returns.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe {

class Tensor;

/// A handle to a queue. `native` is the backend's own handle (cudaStream_t); null is the device's
/// default queue.
struct Stream {
  void* native = nullptr;
  Device device;

  bool operator==(const Stream&) const = default;
};

/// Where this thread's kernels and copies on `device` are queued.
LATHE_API Stream current_stream(Device device = Device(DeviceType::kCUDA)) noexcept;

/// { StreamScope on(stream); … }: this thread queues on `stream` until the scope ends.
class LATHE_API StreamScope {
 public:
  [[nodiscard]] explicit StreamScope(Stream stream) noexcept;
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream before_;
};

/// A new queue, which waits for no other queue. Its destructor does not wait: queued work goes on,
/// and a later OwnedStream may queue behind it. On the CPU an OwnedStream is the one queue that
/// everything uses.
class LATHE_API OwnedStream {
 public:
  /// throws: NoCudaError without a GPU; DeviceError if there is no such device; CudaError.
  explicit OwnedStream(Device device = Device(DeviceType::kCUDA));
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept;
  OwnedStream& operator=(OwnedStream&& other) noexcept;

  Stream get() const { return stream_; }
  operator Stream() const { return stream_; }

 private:
  Stream stream_;
};

/// Waits until everything queued on `stream` is done.
/// throws: CudaError; IndexError for a label or index that a kernel found out of range since the
/// last wait.
LATHE_API void synchronize(Stream stream);

/// Tells the allocator that the work queued on `stream` so far also uses t's memory. The allocator
/// does not hand this memory out again before that work is done. Call it for a tensor that is used
/// on another stream than the one on which it was made, also for a pinned one. Does nothing for
/// memory that is not Lathe's (from_blob, from_dlpack): its owner must wait before releasing it.
LATHE_API void record_stream(const Tensor& t, Stream stream);

struct EventOptions {
  bool timing = false;  // true: the event can be given to elapsed_ms
};

/// A point in a queue. On the CPU it is reached at once.
class LATHE_API Event {
 public:
  /// throws: NoCudaError without a GPU; DeviceError if there is no such device; CudaError.
  explicit Event(Device device = Device(DeviceType::kCUDA), EventOptions options = {});
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Sets the event to the point after everything that is queued on `stream` now.
  /// throws: DeviceError for a stream of another device.
  void record(Stream stream);
  /// Makes work queued on `stream` from now on wait for this event. The host does not wait, unless
  /// `stream` is the CPU's.
  void block(Stream stream) const;
  /// True if the point is reached. Also true before the first record().
  bool done() const;
  /// Makes the host wait until the point is reached.
  void synchronize() const;

 private:
  friend LATHE_API double elapsed_ms(const Event& from, const Event& to);
  Device device_;
  void* native_ = nullptr;
  double cpu_ms_ = 0;  // on the CPU: when it was recorded
};

/// Milliseconds between two recorded events made with timing.
/// throws: CudaError if an event is not reached yet, DeviceError if the events' devices differ.
LATHE_API double elapsed_ms(const Event& from, const Event& to);

}  // namespace lathe
