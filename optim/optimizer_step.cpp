// Optimizer::step(): first everything that can fail, then the updates (update.h).
#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>

#include "lathe/autograd/half_copy.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/stream.h"
#include "lathe/optim/check_grads.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

namespace {

/// The type of a parameter's buffers, which is the type of the arithmetic.
DType buffer_dtype(const Tensor& param) { return param.dtype() == kF64 ? kF64 : kF32; }

/// Dense memory in `like`'s order.
Tensor make_like(const Tensor& like, DType dtype) {
  return empty_strided(like.shape(), like.strides(), dtype, like.device());
}

/// t itself if its elements lie in `like`'s order, else a copy that does.
Tensor in_order_of(const Tensor& like, const Tensor& t) {
  if (same_order(t, like)) return t;
  Tensor out = make_like(like, t.dtype());
  copy_values(out, t);
  return out;
}

/// The parameter itself if it is dense, else memory that is.
Tensor in_dense_order(const Tensor& param) { return is_dense(param) ? param : empty_like(param); }

void check_may_begin_state(const char* name, Device device) {
  LATHE_CHECK(StateError, device.is_cpu() || !lathe::cuda::is_capturing(current_stream(device)),
              name,
              ": a capture cannot begin the optimiser's state, because each launch would begin it "
              "again; make a step with the same gradients and orders of memory before the capture, "
              "after set_capturable() if that is called");
}

/// The parameter [O,…] as the matrix [O, n / O], if its memory has the order of rows or columns.
void set_matrix(UpdateItem& item, const Tensor& param) {
  if (item.n == 0) return;
  const int64_t rows = param.dim(0), columns = item.n / rows, stride = param.strides()[0];
  const bool by_rows = rows == 1 || stride == columns;
  if (!by_rows && stride != 1) return;
  item.rows = rows;
  item.by_columns = !by_rows;
}

/// Memory for the norms of all items, shared out among them.
Tensor make_scratch(std::span<UpdateItem> items) {
  if (items.empty()) return {};
  int64_t size = 0;
  for (const UpdateItem& item : items) size += norm_scratch(item.n);
  Tensor all = empty({size}, {.dtype = kF64, .device = items.front().device});
  double* at = all.data<double>();
  for (UpdateItem& item : items) {
    item.scratch = at;
    at += norm_scratch(item.n);
  }
  return all;
}

}  // namespace

/// One parameter made ready for the update. The slots change only after all parameters are ready.
struct Optimizer::Prepared {
  Tensor param;           // dense: the parameter or, if that is not, a copy to be written back
  Tensor grad;            // in the same order; half where the update reads it so
  Tensors buffers;        // likewise; new ones are zero
  Tensor half_copy = {};  // the parameter's, if the update writes it too
};

Shape Optimizer::buffer_shape(const Slot& slot, size_t buffer) const {
  const BufferName& name = buffer_names_[buffer];
  if (name.per == Per::kTensor || !name.fits(slot.param)) return {};
  Shape shape = slot.param.shape();
  if (name.per == Per::kRow) shape[shape.size() - 1] = 1;
  if (name.per == Per::kColumn) shape[shape.size() - 2] = 1;
  return shape;
}

void Optimizer::check_buffer_fits(const Slot& slot, size_t buffer, size_t number) const {
  const Tensor& b = slot.buffers[buffer];
  const Tensor& p = slot.param;
  LATHE_CHECK(StateError,
              b.shape() == buffer_shape(slot, buffer) && b.device() == p.device() &&
                  b.dtype() == buffer_dtype(p),
              name_, ": ", buffer_names_[buffer].name, " of parameter ", number,
              " no longer fits its parameter (state: ", b, ", parameter: ", p, ")");
}

bool Optimizer::needs(size_t buffer, const Slot& slot, const Group& group) const {
  const bool is_master = buffer + 1 == buffer_names_.size();
  if (is_master) return group.master_weights && is_half(slot.param.dtype());
  if (!buffer_names_[buffer].fits(slot.param)) return false;
  const std::string_view only_if = buffer_names_[buffer].only_if;
  return only_if.empty() || group.hyper(only_if) != 0;
}

/// The parameter's gradient in the order of `dense`; half where the update reads it so.
Tensor Optimizer::gradient_of(const Tensor& param, const Tensor& dense) const {
  return in_order_of(dense, reads_halves(param) ? amp::arrived_grad(param) : param.grad());
}

Optimizer::Prepared Optimizer::prepare(const Slot& slot, const Group& group) const {
  Prepared out;
  out.param = in_dense_order(slot.param);
  if (!out.param.is_same(slot.param)) copy_values(out.param, slot.param);
  if (reads_halves(slot.param) && out.param.is_same(slot.param))
    out.half_copy = amp::half_copy_to_write(out.param);
  out.grad = gradient_of(slot.param, out.param);
  out.buffers.resize(slot.buffers.size());
  for (size_t b = 0; b < slot.buffers.size(); ++b) {
    const bool has_elements = buffer_names_[b].has_elements();
    if (slot.buffers[b].defined()) {
      // A copy in another order would be made again at each launch, from the state before it.
      if (has_elements && !same_order(slot.buffers[b], out.param))
        check_may_begin_state(name_, out.param.device());
      out.buffers[b] = has_elements ? in_order_of(out.param, slot.buffers[b]) : slot.buffers[b];
    } else if (needs(b, slot, group)) {
      check_may_begin_state(name_, out.param.device());
      const DType dtype = buffer_dtype(out.param);
      out.buffers[b] = has_elements ? make_like(out.param, dtype)
                                    : empty(buffer_shape(slot, b),
                                            {.dtype = dtype, .device = out.param.device()});
      fill_values(out.buffers[b], 0);  // where a master differs, the parameter's value counts
    }
  }
  return out;
}

std::vector<int64_t> Optimizer::steps_of(const Group& group) const {
  if (group.counts.defined()) return group.counts.to_vector<int64_t>();
  std::vector<int64_t> out;
  for (const Slot& slot : group.entries) out.push_back(slot.step);
  return out;
}

/// The slots' step counts in device memory. Written by fills: a copy from the host would wait.
Tensor Optimizer::make_counts(const Group& group, Device device) const {
  check_may_begin_state(name_, device);
  const Tensor counts =
      empty({static_cast<int64_t>(group.entries.size())}, {.dtype = kI64, .device = device});
  const int64_t common = group.entries.front().step;
  fill_values(counts, common);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    if (group.entries[i].step == common) continue;
    fill_values(alias(counts, {}, {}, static_cast<int64_t>(i)), group.entries[i].step);
  }
  return counts;
}

/// Counts on a device that the parameters have left move back into the slots.
void Optimizer::follow_device(Group& group) const {
  if (!group.counts.defined() || group.counts.device() == group.entries.front().param.device()) {
    return;
  }
  const std::vector<int64_t> steps = steps_of(group);
  for (size_t s = 0; s < steps.size(); ++s) group.entries[s].step = steps[s];
  group.counts = {};
  group.rate = {};
}

void Optimizer::check_options(const StepOptions& o) const {
  const auto check_number = [&](const Tensor& t, const char* what) {
    LATHE_CHECK(ValueError, !t.defined() || (t.dtype() == kF32 && t.ndim() == 0), name_, ": ", what,
                " must be a 0-d f32 (", what, ": ", t, ")");
  };
  check_number(o.found_inf, "found_inf");
  check_number(o.grad_scale, "grad_scale");
  LATHE_CHECK(ValueError, !o.grad_scale.defined() || o.found_inf.defined(), name_,
              ": grad_scale needs found_inf, which tells of an overflow");
  LATHE_CHECK(ValueError, o.max_grad_norm >= 0, name_, ": max_grad_norm must not be negative, got ",
              o.max_grad_norm);
}

/// Everything that a step will change, made ready.
struct Optimizer::Pending {
  Tensors grads;  // of all parameters that have one, also of those that another process updates
  std::deque<std::pair<Slot*, Prepared>> ready;  // items point into it
  std::vector<UpdateItem> items;                 // of all groups, one after another
  std::vector<size_t> ends;                      // of each group's items
  Tensors counts, rates;                         // of each group
  Tensors scratch;

  std::span<UpdateItem> group(size_t g) {
    const size_t begin = g == 0 ? 0 : ends[g - 1];
    return std::span(items).subspan(begin, ends[g] - begin);
  }
};

/// What the host knows of one parameter's update.
UpdateItem Optimizer::make_item(const Prepared& p, const Slot& slot, const Group& group) const {
  UpdateItem item{.n = p.param.numel(),
                  .dtype = p.param.dtype(),
                  .device = p.param.device(),
                  .step = slot.step + 1,
                  .param = p.param.raw_data(),
                  .grad = p.grad.raw_data(),
                  .buffers = {}};
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    if (!needs(b, slot, group)) continue;
    const bool is_master = b + 1 == p.buffers.size();
    (is_master ? item.master : item.buffers[b]) = p.buffers[b].raw_data();
  }
  if (p.param.ndim() > 1) set_matrix(item, p.param);
  if (p.grad.dtype() != item.dtype) item.half_grad = p.grad.dtype();
  if (p.half_copy.defined()) {
    item.half_copy = p.half_copy.dtype();
    item.copy = p.half_copy.raw_data();
  }
  return item;
}

/// What only the GPU knows of an update of slot s in group g. Count and rate move to the GPU with
/// the first step that needs them there.
void Optimizer::use_device_state(UpdateItem& item, size_t g, size_t s, const Tensor& found_inf,
                                 Pending& out) const {
  const Group& group = groups_[g];
  if (found_inf.defined()) item.found_inf = found_inf.data<float>();
  Tensor& counts = out.counts[g];
  if (!counts.defined()) counts = group.counts;
  if (!counts.defined() && (found_inf.defined() || capturable_)) {
    counts = make_counts(group, item.device);
  }
  if (counts.defined()) item.count = counts.data<int64_t>() + s;
  if (!capturable_) return;
  Tensor& rate = out.rates[g];
  if (!rate.defined()) rate = group.rate;
  if (!rate.defined()) {
    check_may_begin_state(name_, item.device);
    rate = empty({}, {.dtype = kF64, .device = item.device});
    fill_values(rate, group.hyper("lr"));
  }
  item.lr = rate.data<double>();
}

/// Adds the parameters of group g that have gradients. The first one of the group is parameter
/// `number` of all.
void Optimizer::gather_group(size_t g, size_t number, const Tensor& found_inf, Pending& out) {
  Group& group = groups_[g];
  follow_device(group);
  const size_t begin = out.items.size();
  for (size_t s = 0; s < group.entries.size(); ++s) {
    Slot& slot = group.entries[s];
    if (!amp::arrived_grad(slot.param).defined()) continue;
    if (!is_own(number + s)) {
      out.grads.push_back(gradient_of(slot.param, in_dense_order(slot.param)));
      continue;
    }
    for (size_t b = 0; b < slot.buffers.size(); ++b) {
      if (slot.buffers[b].defined()) check_buffer_fits(slot, b, number + s);
    }
    Prepared p = prepare(slot, group);
    UpdateItem item = make_item(p, slot, group);
    LATHE_CHECK(DeviceError, out.items.size() == begin || out.items[begin].device == item.device,
                name_, ": the parameters of group ", g, " are on several devices (parameter ",
                number + s, ": ", slot.param, ", others on ", out.items[begin].device, ")");
    LATHE_CHECK(DeviceError, !found_inf.defined() || found_inf.device() == item.device, name_,
                ": found_inf is on another device than parameter ", number + s,
                " (found_inf: ", found_inf, ", parameter: ", slot.param, ")");
    if (item.device.is_cuda()) use_device_state(item, g, s, found_inf, out);
    out.grads.push_back(p.grad);
    item.tensor = &out.ready.emplace_back(&slot, std::move(p)).second.param;
    out.items.push_back(item);
  }
  out.ends.push_back(out.items.size());
  std::ranges::stable_sort(out.group(g), {}, &UpdateItem::kind);
  if (measures_norms()) out.scratch.push_back(make_scratch(out.group(g)));
}

Optimizer::Pending Optimizer::gather(const Tensor& found_inf) {
  Pending out;
  out.counts.resize(groups_.size());
  out.rates.resize(groups_.size());
  size_t number = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    gather_group(g, number, found_inf, out);
    number += groups_[g].entries.size();
  }
  return out;
}

/// Scale, overflow and total norm of the gradients, for the update to use.   → the norm
Tensor Optimizer::check_gradients(const StepOptions& o, Pending& pending) const {
  const bool any_f64 =
      std::ranges::any_of(pending.grads, [](const Tensor& grad) { return grad.dtype() == kF64; });
  const Device device = pending.grads.empty() ? o.found_inf.defined() ? o.found_inf.device() : kCPU
                                              : pending.grads.front().device();
  for (const Tensor& grad : pending.grads) {
    LATHE_CHECK(DeviceError, grad.device() == device, name_,
                ": gradients on several devices cannot be clipped or unscaled together (", device,
                ", ", grad.device(), ")");
  }
  LATHE_CHECK(DeviceError, !o.grad_scale.defined() || o.grad_scale.device() == device, name_,
              ": grad_scale is on another device than the parameters (grad_scale: ", o.grad_scale,
              ", parameters on ", device, ")");
  GradCheck check{.grads = pending.grads,
                  .scale = o.grad_scale,
                  .max_norm = o.max_grad_norm,
                  .found_inf = o.found_inf,
                  .factors = empty({2}, {.dtype = kF64, .device = device})};
  if (o.max_grad_norm > 0) {
    check.total = empty({}, {.dtype = any_f64 ? kF64 : kF32, .device = device});
  }
  LATHE_DISPATCH(device, check_grads(check, pending.items));
  for (UpdateItem& item : pending.items) item.grad_factors = check.factors.data<double>();
  pending.scratch.push_back(check.factors);
  return check.total;
}

/// Bytes that an update reads and writes.
static double bytes_of_update(const Tensor& param, const Tensor& grad, const Tensor& half_copy,
                              const Tensors& buffers) {
  int64_t bytes = 2 * param.bytes() + grad.bytes();
  if (half_copy.defined()) bytes += half_copy.bytes();
  for (const Tensor& buffer : buffers) bytes += buffer.defined() ? 2 * buffer.bytes() : 0;
  return static_cast<double>(bytes);
}

Tensor Optimizer::step(const StepOptions& options) {
  const profile::OpRange range(name_, {}, profile::Kind::kOptimizer);
  check_options(options);
  if (!shares_) return step_own(options);
  shares_->check_can_exchange();  // outside of what ends the group: nothing has changed
  try {
    Tensor total = step_own(options);
    shares_->exchange();
    return total;
  } catch (const std::exception& error) {
    shares_->failed("step", error.what());
    throw;
  }
}

Tensor Optimizer::step_own(const StepOptions& options) {
  const profile::MemoryTagScope state(profile::MemoryTag::kOptimizer);
  const auto is_skipped = [&] {
    const Tensor& flag = options.found_inf;
    return flag.defined() && flag.device().is_cpu() && flag.item<float>() != 0;
  };
  const bool looks = options.grad_scale.defined();
  if (!looks && is_skipped()) return {};

  // First everything that can fail, then the updates.
  Pending pending = gather(options.found_inf);
  Tensor total;
  if (looks || options.max_grad_norm > 0) total = check_gradients(options, pending);
  if (looks && is_skipped()) return total;

  Tensors prepared;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (pending.group(g).empty()) continue;
    for (Tensor& t : prepare_update(groups_[g].hyper, pending.group(g)))
      prepared.push_back(std::move(t));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::span<UpdateItem> items = pending.group(g);
    if (items.empty()) continue;
    if (pending.counts[g].defined()) groups_[g].counts = pending.counts[g];
    if (pending.rates[g].defined()) groups_[g].rate = pending.rates[g];
    update(groups_[g].hyper, items);
  }
  for (auto& [slot, p] : pending.ready) {
    profile::note_bytes([&] { return bytes_of_update(p.param, p.grad, p.half_copy, p.buffers); });
    slot->step += 1;
    slot->buffers = std::move(p.buffers);
    if (!p.param.is_same(slot->param)) copy_values(slot->param, p.param);
    slot->param.bump_version();
    amp::half_copy_written(slot->param, p.half_copy);
    for (const Tensor& buffer : slot->buffers) {  // state_dict() shares them
      if (buffer.defined()) buffer.bump_version();
    }
  }
  return total;
}

}  // namespace lathe::optim
