// ComputeStream: where a training queues its work on a GPU.
#pragma once

#include <optional>

#include "lathe/core/stream.h"

namespace lathe::train {

/// { const ComputeStream on(device); … }: until the scope ends, this thread queues its work on the
/// GPU to a stream of its own, and not to the default stream. A stream of its own waits for no
/// other stream of the process, and can be captured.
///   default   ── work before ── event ╲                            ╱─ work after ──
///   own                                ╲── work of the scope ── event
/// Tensors from before may be used and released in the scope, and those of the scope afterwards.
/// In the scope no other thread queues work to the default stream that uses memory from there.
/// The next scope of this thread has the same stream, so that a later training can use the memory
/// that an earlier one has left cached. Does nothing on the CPU, nor where the thread has another
/// stream than the default one already.
class LATHE_API ComputeStream {
 public:
  /// throws: NoCudaError, DeviceError, CudaError.
  explicit ComputeStream(Device device);
  ~ComputeStream();
  ComputeStream(const ComputeStream&) = delete;
  ComputeStream& operator=(const ComputeStream&) = delete;

 private:
  std::optional<Stream> own_;  // empty: it does nothing
  std::optional<StreamScope> on_;
};

}  // namespace lathe::train
