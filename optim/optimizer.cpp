// Groups, state and the frame of a step; see optimizer.h.
#include "lathe/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "lathe/core/copy.h"
#include "lathe/core/dense.h"

namespace lathe::optim {

namespace {

/// The type of a parameter's buffers: the type its arithmetic is done in.
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

/// One parameter made ready for the update. The slot changes only after all are.
struct Optimizer::Prepared {
  Tensor param;     // dense: the parameter or, if that is not, a copy to be written back
  Tensor grad;      // in the same order
  Tensors buffers;  // likewise; new ones are zero
};

double Optimizer::HyperParameters::operator()(std::string_view name) const {
  for (const HyperParameter& h : *this) {
    if (h.name == name) return h.value;
  }
  LATHE_FAIL(ValueError, "optimizer: no hyper-parameter \"", name, "\"");
}

Optimizer::Optimizer(const char* name, std::vector<BufferName> buffers)
    : name_(name), buffer_names_(std::move(buffers)) {}

Optimizer::~Optimizer() = default;

void Optimizer::add_group(Tensors params, HyperParameters hyper) {
  LATHE_CHECK(ValueError, !params.empty(), name_, ": group ", groups_.size(), " has no parameters");
  check(hyper);
  std::unordered_set<const TensorImpl*> known;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) known.insert(slot.param.handle().get());
  }
  Group group{.slots = {}, .hyper = std::move(hyper), .initial_lr = 0, .counts = {}};
  group.initial_lr = group.hyper("lr");
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    LATHE_CHECK(ValueError, p.defined(), name_, ": parameter ", i, " of group ", groups_.size(),
                " is undefined");
    LATHE_CHECK(DTypeError, is_floating(p.dtype()), name_, ": parameter ", i, " is not floating (",
                p, ")");
    LATHE_CHECK(StateError, p.is_leaf(), name_, ": parameter ", i,
                " is not a leaf but the result of ", p.grad_fn(), " (", p, ")");
    LATHE_CHECK(ValueError, known.insert(p.handle().get()).second, name_, ": parameter ", i,
                " of group ", groups_.size(), " appears twice (", p, ")");
    group.slots.push_back({.param = p, .step = 0, .buffers = Tensors(buffer_names_.size())});
  }
  groups_.push_back(std::move(group));
}

void Optimizer::check_groups() const {
  LATHE_CHECK(ValueError, !groups_.empty(), name_, ": an empty list of parameter groups");
}

void Optimizer::check_not_negative(const HyperParameters& hyper, std::string_view name) const {
  const double value = hyper(name);
  LATHE_CHECK(ValueError, value >= 0 && std::isfinite(value), name_, ": ", name,
              " must be finite and not negative, got ", value);
}

void Optimizer::check_below_one(const HyperParameters& hyper, std::string_view name) const {
  const double value = hyper(name);
  LATHE_CHECK(ValueError, value >= 0 && value < 1, name_, ": ", name, " must be in [0,1), got ",
              value);
}

const Optimizer::Group& Optimizer::group_at(size_t group) const {
  LATHE_CHECK(IndexError, group < groups_.size(), name_, ": no group ", group, " among ",
              groups_.size());
  return groups_[group];
}

Tensors Optimizer::params(size_t group) const {
  Tensors out;
  for (const Slot& slot : group_at(group).slots) out.push_back(slot.param);
  return out;
}

Tensors Optimizer::params() const {
  Tensors out;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) out.push_back(slot.param);
  }
  return out;
}

double Optimizer::lr(size_t group) const { return group_at(group).hyper("lr"); }
double Optimizer::initial_lr(size_t group) const { return group_at(group).initial_lr; }
double Optimizer::hyper_parameter(std::string_view name, size_t group) const {
  return group_at(group).hyper(name);
}

void Optimizer::set_lr(size_t group, double lr) {
  HyperParameters hyper = group_at(group).hyper;
  hyper.front().value = lr;
  check(hyper);
  groups_[group].hyper = std::move(hyper);
}

void Optimizer::set_lr(double lr) { set_lrs(std::vector<double>(groups_.size(), lr)); }

void Optimizer::set_lrs(const std::vector<double>& rates) {
  LATHE_CHECK(ValueError, rates.size() == groups_.size(), name_, ": ", rates.size(),
              " learning rates for ", groups_.size(), " groups");
  std::vector<HyperParameters> hypers;
  for (size_t g = 0; g < groups_.size(); ++g) {
    hypers.push_back(groups_[g].hyper);
    hypers.back().front().value = rates[g];
    check(hypers.back());
  }
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].hyper = std::move(hypers[g]);
}

void Optimizer::zero_grad(ZeroGradOptions options) const {
  for (const Tensor& p : params()) {
    const Tensor grad = p.grad();
    if (!grad.defined()) continue;
    if (options.set_to_none) {
      p.set_grad({});
    } else if (has_overlap(grad)) {  // an expanded gradient has no memory of its own to write to
      const Tensor zeros = empty_like(p);
      fill_values(zeros, 0);
      p.set_grad(zeros);
    } else {
      fill_values(grad, 0);
      grad.bump_version();
    }
  }
}

Shape Optimizer::buffer_shape(const Slot& slot, size_t buffer) const {
  return buffer_names_[buffer].one_number ? Shape() : slot.param.shape();
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

Optimizer::Prepared Optimizer::prepare(const Slot& slot, const HyperParameters& hyper) const {
  Prepared out;
  out.param = slot.param;
  if (!is_dense(slot.param)) {
    out.param = empty_like(slot.param);
    copy_values(out.param, slot.param);
  }
  out.grad = in_order_of(out.param, slot.param.grad());
  out.buffers.resize(slot.buffers.size());
  for (size_t b = 0; b < slot.buffers.size(); ++b) {
    const bool one_number = buffer_names_[b].one_number;
    if (slot.buffers[b].defined()) {
      out.buffers[b] = one_number ? slot.buffers[b] : in_order_of(out.param, slot.buffers[b]);
    } else if (needs_buffer(b, hyper)) {
      const DType dtype = buffer_dtype(out.param);
      out.buffers[b] = one_number ? empty({}, {.dtype = dtype, .device = out.param.device()})
                                  : make_like(out.param, dtype);
      fill_values(out.buffers[b], 0);
    }
  }
  return out;
}

std::vector<int64_t> Optimizer::steps_of(const Group& group) const {
  if (group.counts.defined()) return group.counts.to_vector<int64_t>();
  std::vector<int64_t> out;
  for (const Slot& slot : group.slots) out.push_back(slot.step);
  return out;
}

/// The slots' steps in the device's memory, by fills: a copy from the host would wait.
Tensor Optimizer::make_counts(const Group& group, Device device) const {
  const Tensor counts =
      empty({static_cast<int64_t>(group.slots.size())}, {.dtype = kI64, .device = device});
  const int64_t common = group.slots.front().step;
  fill_values(counts, common);
  for (size_t i = 0; i < group.slots.size(); ++i) {
    if (group.slots[i].step == common) continue;
    fill_values(alias(counts, {}, {}, static_cast<int64_t>(i)), group.slots[i].step);
  }
  return counts;
}

/// Counts that a moved parameter left behind on another device become the slots' again.
void Optimizer::follow_device(Group& group) const {
  if (!group.counts.defined() || group.counts.device() == group.slots.front().param.device()) {
    return;
  }
  const std::vector<int64_t> steps = steps_of(group);
  for (size_t s = 0; s < steps.size(); ++s) group.slots[s].step = steps[s];
  group.counts = {};
}

void Optimizer::step(const StepOptions& options) {
  const Tensor& found_inf = options.found_inf;
  if (found_inf.defined()) {
    LATHE_CHECK(ValueError, found_inf.dtype() == kF32 && found_inf.ndim() == 0, name_,
                ": found_inf must be a 0-d f32 (found_inf: ", found_inf, ")");
    if (found_inf.device().is_cpu() && found_inf.item<float>() != 0) return;
  }

  // First everything that can fail, then the updates.
  std::vector<std::pair<Slot*, Prepared>> ready;
  std::vector<std::vector<UpdateItem>> items(groups_.size());
  Tensors counts(groups_.size());
  size_t number = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    follow_device(groups_[g]);
    for (size_t s = 0; s < groups_[g].slots.size(); ++s) {
      Slot& slot = groups_[g].slots[s];
      const size_t at = number++;
      if (!slot.param.grad().defined()) continue;
      for (size_t b = 0; b < slot.buffers.size(); ++b) {
        if (slot.buffers[b].defined()) check_buffer_fits(slot, b, at);
      }
      Prepared p = prepare(slot, groups_[g].hyper);
      UpdateItem item{.n = p.param.numel(),
                      .dtype = p.param.dtype(),
                      .device = p.param.device(),
                      .step = slot.step + 1,
                      .param = p.param.raw_data(),
                      .grad = p.grad.raw_data(),
                      .buffers = {}};
      for (size_t b = 0; b < p.buffers.size(); ++b) {
        if (needs_buffer(b, groups_[g].hyper)) item.buffers[b] = p.buffers[b].raw_data();
      }
      LATHE_CHECK(DeviceError, items[g].empty() || items[g].front().device == item.device, name_,
                  ": the parameters of group ", g, " are on several devices (parameter ", at, ": ",
                  slot.param, ", others on ", items[g].front().device, ")");
      LATHE_CHECK(DeviceError, !found_inf.defined() || found_inf.device() == item.device, name_,
                  ": found_inf is on another device than parameter ", at,
                  " (found_inf: ", found_inf, ", parameter: ", slot.param, ")");
      if (item.device.is_cuda()) {
        if (!counts[g].defined()) counts[g] = groups_[g].counts;
        if (found_inf.defined()) {
          item.found_inf = found_inf.data<float>();
          if (!counts[g].defined()) counts[g] = make_counts(groups_[g], item.device);
        }
        if (counts[g].defined()) item.count = counts[g].data<int64_t>() + s;
      }
      items[g].push_back(item);
      ready.emplace_back(&slot, std::move(p));
    }
  }

  Tensors scratch;
  for (std::vector<UpdateItem>& group : items) {
    std::ranges::stable_sort(group, {}, &UpdateItem::kind);
    if (measures_norms()) scratch.push_back(make_scratch(group));
  }

  for (size_t g = 0; g < groups_.size(); ++g) {
    if (items[g].empty()) continue;
    if (counts[g].defined()) groups_[g].counts = counts[g];
    update(groups_[g].hyper, items[g]);
  }
  for (auto& [slot, p] : ready) {
    slot->step += 1;
    slot->buffers = std::move(p.buffers);
    if (!p.param.is_same(slot->param)) copy_values(slot->param, p.param);
    slot->param.bump_version();
  }
}

}  // namespace lathe::optim
