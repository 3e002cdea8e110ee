// ProcessGroup: checks of each call, tensors that need a copy, and what the calls compute.
#include "lathe/distributed/process_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/format.h"
#include "lathe/distributed/device_calls.h"
#include "lathe/distributed/group_state.h"

namespace lathe::distributed {

using detail::Call;

namespace {

const char* text_of(Reduce op) {
  switch (op) {
    case Reduce::kSum: return "sum";
    case Reduce::kAverage: return "average";
    case Reduce::kMin: return "min";
    case Reduce::kMax: return "max";
    case Reduce::kProduct: break;
  }
  return "product";
}

void check_reduction(const char* name, const Tensor& t, Reduce op) {
  LATHE_CHECK(DTypeError, t.dtype() != kBool, name, ": not defined for bool (t: ", t, ")");
  LATHE_CHECK(DTypeError, op != Reduce::kAverage || is_floating(t.dtype()), name,
              ": integers have no average (t: ", t, ")");
}

/// A collective has no gradient. So what autograd would have to record may be written only where
/// nothing is recorded, as by any in-place op.
void check_writable(const char* name, const Tensor& out, const Tensor& in) {
  autograd::check_in_place(name, out);
  LATHE_CHECK(StateError, !autograd::wants_record_in_place(out, {in}), name,
              ": this call has no gradient. Exchange tensors that require a gradient under NoGrad "
              "(written: ",
              out, ", read: ", in, ")");
}

bool is_plain(const Tensor& t) { return t.device().is_cpu() && t.is_contiguous(); }

/// `t`, or a contiguous copy of it in host memory.
Tensor plain(const Tensor& t) {
  if (is_plain(t)) return t;
  Tensor copy = empty(t.shape(), {.dtype = t.dtype()});
  copy_values(copy, t);
  return copy;
}

/// Memory for what is written to `t`: its own, or plain memory that `finish` copies to it.
Tensor plain_target(const Tensor& t, Call& call) {
  if (is_plain(t)) return t;
  Tensor target = empty(t.shape(), {.dtype = t.dtype()});
  call.finish = [t, target] { copy_values(t, target); };
  return target;
}

void reduce_all(Backend& backend, const Tensor& t, Reduce op) {
  if (t.numel() == 0) return;
  backend.all_reduce(t.raw_data(), static_cast<size_t>(t.numel()), t.dtype(), op);
}

/// The shape [n, …].
Shape stacked(int64_t n, const Shape& shape) {
  std::vector<int64_t> sizes = {n};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return Shape(sizes);
}

void check_stacked(const char* name, const Tensor& all, const Tensor& one, int64_t world_size) {
  LATHE_CHECK(ShapeError,
              all.shape() == stacked(world_size, one.shape()) && all.dtype() == one.dtype(), name,
              ": expected ", one.dtype(), stacked(world_size, one.shape()), " for ", world_size,
              " ranks (got: ", all, ", the tensor of one rank: ", one, ")");
}

}  // namespace

void Work::wait() {
  if (call_) call_->group->wait(*call_);
}

bool Work::done() const { return !call_ || call_->group->is_done(*call_); }

ProcessGroup::~ProcessGroup() {
  if (std::uncaught_exceptions() > exceptions_) abort("it left because of an exception");
  state_->leave();
}

int64_t ProcessGroup::rank() const { return state_->options().rank; }
int64_t ProcessGroup::world_size() const { return state_->options().world_size; }
const GroupOptions& ProcessGroup::options() const { return state_->options(); }

const std::string& ProcessGroup::host(int64_t rank) const {
  LATHE_CHECK(IndexError, rank >= 0 && rank < world_size(), "process group: there is no rank ",
              rank, " in a world of ", world_size());
  return state_->hosts()[static_cast<size_t>(rank)];
}

Work ProcessGroup::start(const Tensor& written, Call call) {
  Work work(state_->start(std::move(call)));
  written.bump_version();  // not if the call was refused
  return work;
}

Work ProcessGroup::all_reduce_(const Tensor& t, Reduce op) {
  check_reduction("all_reduce_", t, op);
  check_writable("all_reduce_", t, t);
  Call call{concat("all_reduce_(", text_of(op), ") ", t.dtype(), t.shape()), "all_reduce_", {}};
  if (DeviceBackend* const gpu = state_->backend_for(t.device()))
    return detail::all_reduce_on(*gpu, *state_, std::move(call), t, op);
  const Tensor target = plain_target(t, call);
  if (!is_plain(t)) copy_values(target, t);
  call.run = [target, op](Backend& backend) { reduce_all(backend, target, op); };
  return start(t, std::move(call));
}

Work ProcessGroup::broadcast_(const Tensor& t, int64_t root) {
  host(root);  // checks it
  check_writable("broadcast_", t, t);
  Call call{concat("broadcast_(from ", root, ") ", t.dtype(), t.shape()), "broadcast_", {}};
  if (DeviceBackend* const gpu = state_->backend_for(t.device()))
    return detail::broadcast_on(*gpu, *state_, std::move(call), t, root);
  const Tensor target = plain_target(t, call);
  if (!is_plain(t) && rank() == root) copy_values(target, t);
  call.run = [target, root](Backend& backend) {
    if (target.numel() > 0)
      backend.broadcast(target.raw_data(), bytes_of(target), static_cast<int>(root));
  };
  return start(t, std::move(call));
}

Work ProcessGroup::all_gather_(const Tensor& out, const Tensor& in) {
  check_stacked("all_gather_", out, in, world_size());
  check_writable("all_gather_", out, in);
  Call call{concat("all_gather_ ", in.dtype(), in.shape()), "all_gather_", {}};
  if (DeviceBackend* const gpu = state_->backend_for(out.device()))
    return detail::all_gather_on(*gpu, *state_, std::move(call), out, in);
  call.run = [target = plain_target(out, call), from = plain(in)](Backend& backend) {
    if (from.numel() > 0) backend.all_gather(target.raw_data(), from.raw_data(), bytes_of(from));
  };
  return start(out, std::move(call));
}

Work ProcessGroup::reduce_scatter_(const Tensor& out, const Tensor& in, Reduce op) {
  check_reduction("reduce_scatter_", out, op);
  check_stacked("reduce_scatter_", in, out, world_size());
  check_writable("reduce_scatter_", out, in);
  Call call{concat("reduce_scatter_(", text_of(op), ") ", out.dtype(), out.shape()),
            "reduce_scatter_",
            {}};
  if (DeviceBackend* const gpu = state_->backend_for(out.device()))
    return detail::reduce_scatter_on(*gpu, *state_, std::move(call), out, in, op);
  const Tensor all = empty(in.shape(), {.dtype = in.dtype()});
  copy_values(all, in);  // the reduction writes it
  const Tensor own = all.select(0, rank());
  call.run = [all, own, target = plain_target(out, call), op](Backend& backend) {
    reduce_all(backend, all, op);
    copy_values(target, own);
  };
  return start(out, std::move(call));
}

Work ProcessGroup::barrier() {
  return Work(state_->start({"barrier", "barrier", [](Backend& backend) { backend.barrier(); }}));
}

std::vector<std::string> ProcessGroup::all_gather_text(const std::string& text) {
  return state_->all_gather_text(text);
}

bool ProcessGroup::queues_on(Device device) { return state_->backend_for(device) != nullptr; }

void ProcessGroup::abort(const std::string& reason) noexcept { state_->abort(reason); }

}  // namespace lathe::distributed
