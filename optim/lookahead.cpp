// Lookahead: its state, and the step of all slow weights at once (LookaheadRule in
// kernels/element_rules.h).
#include "lathe/optim/lookahead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/state_entries.h"

namespace lathe::optim {

Lookahead::Lookahead(Optimizer& optimizer, const LookaheadOptions& options)
    : optimizer_(optimizer), options_(options), params_(optimizer.params()) {
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  LATHE_CHECK(ValueError, options.k >= 1, "Lookahead: k must be at least 1, got ", options.k);
  LATHE_CHECK(ValueError, options.alpha >= 0 && options.alpha <= 1,
              "Lookahead: alpha must be in [0,1], got ", options.alpha);
  for (const Tensor& p : params_) {
    LATHE_CHECK(ValueError, is_dense(p), "Lookahead: parameter ", slow_.size(),
                " has gaps in its memory (", p, ")");
    LATHE_CHECK(ValueError, !optimizer.has_master_weights(p),
                "Lookahead: the optimiser must not have master_weights, but keeps an f32 copy of "
                "parameter ",
                slow_.size(), " (", p, ")");
    const DType dtype = p.dtype() == kF64 ? kF64 : kF32;
    slow_.push_back(empty_strided(p.shape(), p.strides(), dtype, p.device()));
    copy_values(slow_.back(), p);
  }
}

std::vector<UpdateItem> Lookahead::gather(bool may_skip) {
  const bool on_device = may_skip && !params_.empty() && params_.front().device().is_cuda();
  std::vector<UpdateItem> items;
  if (!on_device && !is_due()) return items;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& p = params_[i];
    LATHE_CHECK(StateError,
                p.shape() == slow_[i].shape() && same_order(p, slow_[i]) &&
                    p.device() == slow_[i].device() &&
                    (p.dtype() == kF64) == (slow_[i].dtype() == kF64),
                "Lookahead: parameter ", i, " no longer fits its slow weight (parameter: ", p,
                ", slow: ", slow_[i], ")");
    LATHE_CHECK(DeviceError, !on_device || p.device() == params_.front().device(),
                "Lookahead: a step that a GPU may skip needs all parameters there, and parameter ",
                i, " is on ", p.device(), ", others on ", params_.front().device());
    items.push_back({.n = p.numel(),
                     .dtype = p.dtype(),
                     .device = p.device(),
                     .step = steps_ + 1,
                     .param = p.raw_data(),
                     .grad = p.raw_data(),  // not used
                     .buffers = {slow_[i].raw_data()},
                     .counted = true});
  }
  if (on_device && !count_.defined()) {
    const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
    count_ = empty({}, {.dtype = kI64, .device = params_.front().device()});
    fill_values(count_, steps_);
  }
  for (UpdateItem& item : items) item.count = count_.defined() ? count_.data<int64_t>() : nullptr;
  std::ranges::stable_sort(items, {}, &UpdateItem::kind);
  if (!items.empty()) items.front().counted = false;  // they share one count
  return items;
}

void Lookahead::follow(std::vector<UpdateItem> items, const Tensor& found_inf) {
  const bool on_device = found_inf.defined() && found_inf.device().is_cuda();
  if (found_inf.defined() && !on_device && found_inf.item<float>() != 0) return;
  ++steps_;
  if (items.empty()) return;
  for (UpdateItem& item : items) item.found_inf = on_device ? found_inf.data<float>() : nullptr;
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end = std::find_if(
        begin, items.end(), [&](const UpdateItem& item) { return item.device != begin->device; });
    LATHE_DISPATCH(begin->device, rule_update(std::span<const UpdateItem>(begin, end), options_));
    begin = end;
  }
  for (const Tensor& p : params_) p.bump_version();
  for (const Tensor& s : slow_) s.bump_version();
}

Tensor Lookahead::step(const StepOptions& options) {
  std::vector<UpdateItem> items = gather(options.found_inf.defined());
  Tensor total = optimizer_.step(options);
  follow(std::move(items), options.found_inf);
  return total;
}

Tensor Lookahead::step(GradScaler& scaler, const ScaledStepOptions& options) {
  std::vector<UpdateItem> items = gather(scaler.enabled());
  Tensor total = scaler.step(optimizer_, options);
  follow(std::move(items), scaler.found_inf(optimizer_));
  return total;
}

StateDict Lookahead::state_dict() const {
  StateDict out;
  out.add_number("steps", count_.defined() ? count_.item<int64_t>() : steps_);
  for (size_t i = 0; i < slow_.size(); ++i) out.add(concat("slow.", i), slow_[i]);
  return out;
}

void Lookahead::load_state_dict(const StateDict& state) {
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  check_entries("Lookahead", state, state_dict());
  const int64_t steps = state.count("steps");
  Tensors loaded;
  for (const Tensor& own : slow_) {
    const std::string name = concat("slow.", loaded.size());
    const Tensor& t = state.at(name);
    LATHE_CHECK(ValueError, t.shape() == own.shape() && is_floating(t.dtype()),
                "Lookahead: ", state.full_name(name), " is ", t, " but the slow weight is ", own);
    loaded.push_back(empty_like(own));
    copy_values(loaded.back(), t);
  }
  slow_ = std::move(loaded);
  steps_ = steps;
  count_ = {};
}

}  // namespace lathe::optim
