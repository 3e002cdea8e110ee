// Copies between host and GPUs, and between GPUs. What goes over the bus is dense and has the
// source's dtype. Strides, broadcasting and conversion are done on either side. Contract:
// cuda_backend.h.
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::cuda {

namespace {

/// True if one transfer can move everything.
bool is_plain(const Tensor& dst, const Tensor& src) {
  return dst.dtype() == src.dtype() && dst.shape() == src.shape() && same_order(dst, src) &&
         is_dense(dst);
}

/// t itself if it is dense, else a dense copy on its device.
Tensor dense(const Tensor& t) {
  if (is_dense(t)) return t;
  Tensor copy = empty(t.shape(), {.dtype = t.dtype(), .device = t.device()});
  copy_values(copy, t);
  return copy;
}

void move_bytes(const Tensor& dst, const Tensor& src, cudaMemcpyKind kind, Stream stream) {
  LATHE_CUDA_CHECK(cudaMemcpyAsync(dst.raw_data(), src.raw_data(), static_cast<size_t>(src.bytes()),
                                   kind, static_cast<cudaStream_t>(stream.native)));
}

/// True if a copy from there may run after the call although is_pinned() is false: memory that
/// others page-locked (DLPack, from_blob), or managed memory.
bool is_read_later(const Tensor& host) {
  cudaPointerAttributes attributes{};
  LATHE_CUDA_CHECK(cudaPointerGetAttributes(&attributes, host.raw_data()));
  return attributes.type != cudaMemoryTypeUnregistered;
}

/// True if record_pinned() lets the host wait: it has the first GPU's events only.
bool waits_to_record(Stream stream) { return stream.device.index != 0; }

// For these two before_wait() was told already, before the copy was queued: a watcher may throw,
// and then the memory may go.
void wait_as_said(Stream stream) {
  const profile::MeantWait said;
  synchronize_stream(stream);
}
void record_as_said(const Tensor& pinned, Stream stream) {
  const profile::MeantWait said;
  record_pinned(pinned.impl().storage->data(), stream);
}

void to_gpu(const Tensor& dst, const Tensor& src, bool async) {
  const Stream stream = current_stream(dst.device());
  // A graph would read the host's memory at each launch. Of pinned memory that may be meant.
  if (!async || !src.is_pinned()) refuse_in_capture("copy to a GPU", stream);
  const Tensor packed = dense(src);
  // Pinned memory is read after the call; other memory may be its owner's again when this returns.
  const bool waits = packed.is_pinned() ? !async && packed.is_same(src) : is_read_later(packed);
  if (waits || (packed.is_pinned() && waits_to_record(stream)))
    profile::before_wait("copy to a GPU");
  const Tensor arrived = is_plain(dst, packed) ? dst
                                               : empty_strided(packed.shape(), packed.strides(),
                                                               packed.dtype(), dst.device());
  move_bytes(arrived, packed, cudaMemcpyHostToDevice, stream);
  // So that the memory is not reused before that is done.
  if (packed.is_pinned()) record_as_said(packed, stream);
  if (waits) wait_as_said(stream);
  if (!arrived.is_same(dst)) copy_values(dst, arrived);
}

void to_host(const Tensor& dst, const Tensor& src, bool async) {
  const Stream stream = current_stream(src.device());
  if (!async || !dst.is_pinned()) refuse_in_capture("copy to the host", stream);
  const Tensor packed = dense(src);
  if (!async || !dst.is_pinned() || !is_plain(dst, packed) || waits_to_record(stream))
    profile::before_wait("copy to the host");
  const Tensor arrived =
      is_plain(dst, packed) ? dst
                            : empty_strided(packed.shape(), packed.strides(), packed.dtype(), kCPU);
  move_bytes(arrived, packed, cudaMemcpyDeviceToHost, stream);
  if (async && dst.is_pinned() && arrived.is_same(dst)) {
    return record_as_said(dst, stream);  // the GPU writes it later
  }
  wait_as_said(stream);
  if (!arrived.is_same(dst)) copy_values(dst, arrived);
}

void between_gpus(const Tensor& dst, const Tensor& src) {
  const Tensor packed = dense(src);
  const Tensor arrived = is_plain(dst, packed) ? dst
                                               : empty_strided(packed.shape(), packed.strides(),
                                                               packed.dtype(), dst.device());
  const Stream from = current_stream(src.device()), to = current_stream(dst.device());
  Event ready(src.device());
  ready.record(from);
  ready.block(to);
  LATHE_CUDA_CHECK(cudaMemcpyPeerAsync(arrived.raw_data(), dst.device().index, packed.raw_data(),
                                       src.device().index, static_cast<size_t>(packed.bytes()),
                                       static_cast<cudaStream_t>(to.native)));
  Event done(dst.device());
  done.record(to);
  done.block(from);  // the source's memory may be reused on its own stream from here on
  if (!arrived.is_same(dst)) copy_values(dst, arrived);
}

}  // namespace

void transfer(const Tensor& dst, const Tensor& src, bool async) {
  if (dst.numel() == 0) return;
  const profile::OpRange range(src.device().is_cpu()   ? "copy host to GPU"
                               : dst.device().is_cpu() ? "copy GPU to host"
                                                       : "copy GPU to GPU",
                               {src, dst}, profile::Kind::kCopy);
  const DeviceScope on(dst.device().is_cuda() ? dst.device() : src.device());
  if (src.device().is_cpu()) {
    to_gpu(dst, src, async);
  } else if (dst.device().is_cpu()) {
    to_host(dst, src, async);
  } else {
    between_gpus(dst, src);
  }
}

}  // namespace lathe::cuda
