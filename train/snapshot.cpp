// Snapshot: memory for the copies, the copies, and waiting for the GPUs.
#include "lathe/train/snapshot.h"

#include <exception>
#include <string>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/ops/memory_format.h"

namespace lathe::train {
namespace {

Tensor new_room(const Tensor& from) {
  if (from.device().is_cuda()) {
    try {
      const Tensor room = empty(from.shape(), {.dtype = from.dtype(), .pinned = true});
      return is_dense(from) ? alias(room, from.shape(), from.strides(), 0) : room;
    } catch (const OutOfMemoryError&) {  // ordinary memory works too, but copies to it are slower
    }
  }
  return empty(from.shape(), {.dtype = from.dtype()});
}

/// A stream of a GPU that copies were queued on. At the end of the scope, however it is left, they
/// are over, unless they were let go.
struct Queued {
  Stream stream = {nullptr, kCPU};  // of the CPU: none

  void wait() {
    const Stream waits_for = let_go();
    if (waits_for.device.is_cuda()) synchronize(waits_for);
  }
  Stream let_go() { return std::exchange(stream, {nullptr, kCPU}); }
  ~Queued() {
    try {
      wait();
    } catch (const std::exception&) {  // a failed GPU writes no more
    }
  }
};

/// The GPU where tensors lie; kCPU if there is none or more than one.
Device only_gpu(const StateDict& tensors) {
  Device gpu = kCPU;
  for (const auto& [name, t] : tensors) {
    if (t.device().is_cpu() || t.device() == gpu) continue;
    if (gpu.is_cuda()) return kCPU;
    gpu = t.device();
  }
  return gpu;
}

/// The tensors with the values of those on the GPU in memory of their own there.
StateDict staged(const StateDict& tensors) {
  StateDict out;
  for (const auto& [name, from] : tensors) {
    if (from.device().is_cpu()) {
      out.add(name, from);
      continue;
    }
    const Strides strides =
        is_dense(from) ? from.strides() : dense_strides(from.shape(), kContiguous);
    const Tensor to = empty_strided(from.shape(), strides, from.dtype(), from.device());
    copy_values(to, from);
    out.add(name, to);
  }
  return out;
}

}  // namespace

Tensor Snapshot::room_for(const std::string& name, const Tensor& from) const {
  const Tensor* const old = copy_.tensors.find(name);
  const bool fits = old != nullptr && old->shape() == from.shape() && old->dtype() == from.dtype();
  return fits ? *old : new_room(from);
}

void Snapshot::take(const Checkpoint& checkpoint) {
  finish();
  Checkpoint fresh{.tensors = {}, .metadata = checkpoint.metadata};
  Queued queued;
  for (const auto& [name, from] : checkpoint.tensors) {
    const Tensor to = room_for(name, from);
    if (from.device().is_cuda() && from.device() != queued.stream.device) {
      queued.wait();
      queued.stream = current_stream(from.device());
    }
    copy_values_async(to, from);
    fresh.tensors.add(name, to);
  }
  queued.wait();
  copy_ = std::move(fresh);
}

void Snapshot::begin(const Checkpoint& checkpoint) {
  finish();
  const Device gpu = only_gpu(checkpoint.tensors);
  if (gpu.is_cpu()) return take(checkpoint);
  StateDict values;
  try {
    values = staged(checkpoint.tensors);
  } catch (const OutOfMemoryError&) {
    return take(checkpoint);
  }
  if (!stream_ || stream_->get().device != gpu) stream_.emplace(gpu);
  Event ready(gpu);
  ready.record(current_stream(gpu));
  ready.block(*stream_);

  Checkpoint fresh{.tensors = {}, .metadata = checkpoint.metadata};
  const StreamScope on(*stream_);
  Queued queued{*stream_};
  for (const auto& [name, from] : values) {
    const Tensor to = room_for(name, from);
    copy_values_async(to, from);
    if (from.device().is_cuda()) record_stream(from, *stream_);
    fresh.tensors.add(name, to);
  }
  queued.let_go();
  copy_ = std::move(fresh);
  begun_ = true;
}

void Snapshot::finish() {
  if (std::exchange(begun_, false)) synchronize(*stream_);
}

}  // namespace lathe::train
