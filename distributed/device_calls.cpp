// Collectives on GPU tensors: memory that the backend can take, and how long it is kept.
#include "lathe/distributed/device_calls.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"

namespace lathe::distributed::detail {

namespace {

/// NCCL has no 16-bit integers. In wider ones results are the same, after they wrap.
DType reduced_as(DType dtype) { return dtype == kI16 ? kI32 : dtype; }

/// `t`, or a contiguous copy of it on the backend's device.
Tensor plain(const DeviceBackend& backend, const Tensor& t, DType dtype) {
  if (t.is_contiguous() && t.dtype() == dtype && t.device() == backend.device()) return t;
  const Tensor copy = empty(t.shape(), {.dtype = dtype, .device = backend.device()});
  copy_values(copy, t);
  return copy;
}

/// Memory for what is written to `t`: its own, or plain memory that `finish` copies to it.
Tensor plain_target(const DeviceBackend& backend, const Tensor& t, DType dtype, Call& call) {
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  const Tensor target = empty(t.shape(), {.dtype = dtype, .device = backend.device()});
  call.finish = [t, target] { copy_values(t, target); };
  return target;
}

/// The pool does not hand out the tensors' memory before the backend's stream has used it. In a
/// graph it cannot ask when that is: there the tensors live until the call is waited for.
template <class F>
Work start(DeviceBackend& backend, GroupState& group, Call call, const Tensor& written,
           const Tensors& used, F&& f) {
  call.text += " on a GPU";
  const bool recorded = cuda::is_capturing(current_stream(backend.device()));
  if (recorded) call.kept = used;
  Work work(group.start(std::move(call), backend, [&](DeviceBackend& on) {
    if (written.numel() > 0) f(on);
    if (recorded) return;
    for (const Tensor& t : used) record_stream(t, on.stream());
  }));
  written.bump_version();  // not if the call was refused
  return work;
}

}  // namespace

Work all_reduce_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& t,
                   Reduce op) {
  const DType dtype = reduced_as(t.dtype());
  const Tensor target = plain_target(backend, t, dtype, call);
  if (!target.is_same(t)) copy_values(target, t);
  return start(backend, group, std::move(call), t, {target}, [&](DeviceBackend& on) {
    on.all_reduce(target.raw_data(), static_cast<size_t>(target.numel()), dtype, op);
  });
}

Work broadcast_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& t,
                  int64_t root) {
  const Tensor target = plain_target(backend, t, t.dtype(), call);
  if (!target.is_same(t) && group.options().rank == root) copy_values(target, t);
  return start(backend, group, std::move(call), t, {target}, [&](DeviceBackend& on) {
    on.broadcast(target.raw_data(), bytes_of(target), static_cast<int>(root));
  });
}

Work all_gather_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& out,
                   const Tensor& in) {
  const Tensor target = plain_target(backend, out, out.dtype(), call),
               from = plain(backend, in, in.dtype());
  return start(backend, group, std::move(call), out, {from, target}, [&](DeviceBackend& on) {
    on.all_gather(target.raw_data(), from.raw_data(), bytes_of(from));
  });
}

Work reduce_scatter_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& out,
                       const Tensor& in, Reduce op) {
  const DType dtype = reduced_as(out.dtype());
  const Tensor target = plain_target(backend, out, dtype, call), from = plain(backend, in, dtype);
  return start(backend, group, std::move(call), out, {target, from}, [&](DeviceBackend& on) {
    on.reduce_scatter(target.raw_data(), from.raw_data(), static_cast<size_t>(target.numel()),
                      dtype, op);
  });
}

}  // namespace lathe::distributed::detail
