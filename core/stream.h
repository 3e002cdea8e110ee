// Streams: queues of device work. On the CPU there is one, and work on it is done when the call
// returns.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe {

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
  explicit StreamScope(Stream stream) noexcept;
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream before_;
};

}  // namespace lathe
