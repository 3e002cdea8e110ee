// EMA: updates of many averages at once, the exchange with the model's weights, and the state.
// The formula is EmaMath in kernels/update_math.h.
#include "lathe/optim/ema.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/stream.h"
#include "lathe/optim/update.h"

namespace lathe::optim {

namespace {

constexpr profile::MemoryTag kTag = profile::MemoryTag::kOptimizer;  // of averages

Tensor make_average(const Tensor& source) {
  const profile::MemoryTagScope tag(kTag);
  const DType dtype = source.dtype() == kF64 ? kF64 : kF32;
  Tensor average = is_dense(source)
                       ? empty_strided(source.shape(), source.strides(), dtype, source.device())
                       : empty(source.shape(), {.dtype = dtype, .device = source.device()});
  copy_values(average, source);
  return average;
}

/// The values of `t` with the dtype, memory order and device of `like`; t itself if they agree.
Tensor as_in(const Tensor& like, const Tensor& t) {
  const profile::MemoryTagScope tag(kTag);
  if (t.dtype() == like.dtype() && t.device() == like.device() && same_order(t, like)) return t;
  Tensor out = empty_like(like);
  copy_values(out, t);
  return out;
}

/// A count of updates in the memory of a GPU.
Tensor make_update_count(int64_t updates, Device device) {
  LATHE_CHECK(StateError, !lathe::cuda::is_capturing(current_stream(device)),
              "EMA: a capture cannot begin the count of updates, because each launch would begin "
              "it again; call set_capturable() before the capture");
  const profile::MemoryTagScope tag(kTag);
  const Tensor count = empty({}, {.dtype = kI64, .device = device});
  fill_values(count, updates);
  return count;
}

bool same_memory(const Tensor& a, const Tensor& b) { return a.impl().storage == b.impl().storage; }

}  // namespace

EMA::EMA(nn::Module& module, const EMAOptions& options) : options_(options), module_(module) {
  LATHE_CHECK(ValueError, options.decay >= 0 && options.decay <= 1,
              "EMA: decay must be in [0,1], got ", options.decay);
  const auto add = [&](const nn::Module::Named<Tensor>& tensors) {
    for (const auto& [name, t] : tensors) {
      if (is_floating(t.dtype())) entries_.push_back({name, t, make_average(t)});
    }
  };
  add(module.named_parameters());
  if (options.average_buffers) add(module.named_buffers());
}

void EMA::set_capturable() {
  if (count_.defined() || entries_.empty()) return;
  const Device device = entries_.front().average.device();
  if (device.is_cuda()) count_ = make_update_count(updates_, device);
}

void EMA::update(const StepOptions& options) {
  const profile::MemoryTagScope tag(kTag);
  LATHE_CHECK(StateError, !applied_, "EMA: update() while the averages are applied");
  const Tensor& flag = options.found_inf;
  const bool may_skip = flag.defined() && flag.device().is_cuda();
  if (flag.defined() && !may_skip && flag.item<float>() != 0) return;
  if (entries_.empty()) return;
  const Device device = entries_.front().source.device();
  LATHE_CHECK(DeviceError, !may_skip || flag.device() == device,
              "EMA: found_inf is on another device than ", entries_.front().name,
              " (found_inf: ", flag, ", ", entries_.front().name, ": ", entries_.front().source,
              ")");
  Tensor count = count_;
  if (device.is_cuda() && !count.defined() &&
      (may_skip || lathe::cuda::is_capturing(current_stream(device)))) {
    count = make_update_count(updates_, device);
  }
  std::vector<UpdateItem> items;
  Tensors dense;  // copies of sources in another order than their averages
  for (const Entry& e : entries_) {
    LATHE_CHECK(StateError,
                e.source.shape() == e.average.shape() && e.source.device() == e.average.device() &&
                    e.source.device() == device &&
                    (e.source.dtype() == kF64) == (e.average.dtype() == kF64),
                "EMA: ", e.name, " no longer fits its average (now: ", e.source,
                ", average: ", e.average, ")");
    Tensor source = e.source;
    if (!same_order(source, e.average)) {
      source = empty_strided(e.average.shape(), e.average.strides(), source.dtype(), device);
      copy_values(source, e.source);
      dense.push_back(source);
    }
    items.push_back({.n = source.numel(),
                     .dtype = source.dtype(),
                     .device = device,
                     .step = updates_ + 1,
                     .param = nullptr,
                     .grad = source.raw_data(),
                     .buffers = {e.average.raw_data()},
                     .found_inf = may_skip ? flag.data<float>() : nullptr,
                     .count = count.defined() ? count.data<int64_t>() : nullptr,
                     .counted = true});
  }
  std::ranges::stable_sort(items, {}, &UpdateItem::kind);
  items.front().counted = false;  // they share one count
  LATHE_DISPATCH(device,
                 ema_update(items, EmaNumbers{options_.decay, options_.warm_up, options_.swa}));
  count_ = count;
  ++updates_;
  for (const Entry& e : entries_) e.average.bump_version();
}

EMA::Applied::Applied(EMA& ema) : ema_(ema) {
  LATHE_CHECK(StateError, !ema.applied_, "EMA: the averages are applied already");
  Tensors averages;
  for (const Entry& e : ema.entries_) {
    averages.push_back(as_in(e.source, e.average));
    own_.push_back(e.source.detach());
  }
  try {
    for (size_t i = 0; i < averages.size(); ++i) ema.entries_[i].source.set_data(averages[i]);
  } catch (...) {  // a weight that has become a view or the result of an op: all or nothing
    restore();
    throw;
  }
  ema.applied_ = true;
}

EMA::Applied::~Applied() {
  restore();
  ema_.applied_ = false;
}

void EMA::Applied::restore() const {
  for (size_t i = 0; i < own_.size(); ++i) {
    const Tensor& source = ema_.entries_[i].source;
    if (!same_memory(source, own_[i])) source.set_data(own_[i]);
  }
}

void EMA::copy_to_module() const {
  LATHE_CHECK(StateError, !applied_, "EMA: copy_to_module() while the averages are applied");
  for (const Entry& e : entries_) {
    LATHE_CHECK(StateError, e.source.shape() == e.average.shape(), "EMA: ", e.name,
                " no longer fits its average (now: ", e.source, ", average: ", e.average, ")");
  }
  for (const Entry& e : entries_) {
    copy_values(e.source, e.average);
    e.source.bump_version();
  }
}

StateDict EMA::module_state() const {
  std::unordered_map<std::string_view, Tensor> averages;
  for (const Entry& e : entries_) averages.emplace(e.name, as_in(e.source, e.average));
  StateDict out;
  for (const auto& [name, t] : module_.state_dict()) {
    const auto at = averages.find(name);
    out.add(name, at == averages.end() ? t : at->second);
  }
  return out;
}

int64_t EMA::num_updates() const { return count_.defined() ? count_.item<int64_t>() : updates_; }

StateDict EMA::state_dict() const {
  StateDict out;
  out.add_number("num_updates", num_updates());
  for (const Entry& e : entries_) out.add(concat("average.", e.name), e.average);
  return out;
}

void EMA::load_state_dict(const StateDict& state) {
  const profile::MemoryTagScope tag(kTag);
  LATHE_CHECK(StateError, !applied_, "EMA: load_state_dict() while the averages are applied");
  std::string faults;
  const auto complain = [&](const auto&... text) {
    faults += concat(faults.empty() ? "" : "; ", text...);
  };
  const Tensor* updates = state.find("num_updates");
  if (updates == nullptr) complain("missing ", state.full_name("num_updates"));
  const auto count = updates != nullptr ? as_count(*updates) : std::nullopt;
  if (updates != nullptr && !count)
    complain(state.full_name("num_updates"), " is no count: ", *updates);
  Tensors loaded;
  for (const Entry& e : entries_) {
    const std::string name = concat("average.", e.name);
    const Tensor* t = state.find(name);
    if (t == nullptr) {
      complain("missing ", state.full_name(name));
    } else if (!(t->shape() == e.average.shape()) || !is_floating(t->dtype())) {
      complain(state.full_name(name), " is ", *t, " but the average is ", e.average);
    } else {
      loaded.push_back(empty_like(e.average));
      copy_values(loaded.back(), *t);
    }
  }
  const auto is_known = [&](const std::string& name) {
    return name == "num_updates" || std::ranges::any_of(entries_, [&](const Entry& e) {
             return name == concat("average.", e.name);
           });
  };
  for (const auto& [name, t] : state) {
    if (!is_known(name)) complain("unexpected ", state.full_name(name));
  }
  LATHE_CHECK(ValueError, faults.empty(), "EMA: the state does not fit: ", faults);
  const int64_t now = count.value_or(0);
  if (count_.defined()) count_ = make_update_count(now, count_.device());
  for (size_t i = 0; i < loaded.size(); ++i) entries_[i].average = loaded[i];
  updates_ = now;
}

}  // namespace lathe::optim
