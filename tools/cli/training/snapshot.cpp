// Snapshot::take(): memory for the copies, the copies, and waiting for the GPUs.
#include "lathe/tools/cli/training/snapshot.h"

#include <exception>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/core/stream.h"

namespace lathe::cli {
namespace {

Tensor room_for(const Tensor& from) {
  if (from.device().is_cuda()) {
    try {
      const Tensor room = empty(from.shape(), {.dtype = from.dtype(), .pinned = true});
      return is_dense(from) ? alias(room, from.shape(), from.strides(), 0) : room;
    } catch (const OutOfMemoryError&) {  // ordinary memory works too, but copies to it are slower
    }
  }
  return empty(from.shape(), {.dtype = from.dtype()});
}

/// A GPU that copies were queued on. At the end of the scope, however it is left, they are over.
struct Queued {
  Device gpu = kCPU;  // kCPU: none

  void wait() {
    const Device waits_for = std::exchange(gpu, kCPU);
    if (waits_for.is_cuda()) synchronize(current_stream(waits_for));
  }
  ~Queued() {
    try {
      wait();
    } catch (const std::exception&) {  // a failed GPU writes no more
    }
  }
};

}  // namespace

void Snapshot::take(const Checkpoint& checkpoint) {
  Checkpoint fresh{.tensors = {}, .metadata = checkpoint.metadata};
  Queued queued;
  for (const auto& [name, from] : checkpoint.tensors) {
    const Tensor* const old = copy_.tensors.find(name);
    const bool fits =
        old != nullptr && old->shape() == from.shape() && old->dtype() == from.dtype();
    const Tensor to = fits ? *old : room_for(from);
    if (from.device().is_cuda() && from.device() != queued.gpu) {
      queued.wait();
      queued.gpu = from.device();
    }
    copy_values_async(to, from);
    fresh.tensors.add(name, to);
  }
  queued.wait();
  copy_ = std::move(fresh);
}

}  // namespace lathe::cli
