// Lookahead: its state, and the step of all slow weights at once (LookaheadRule in
// kernels/element_rules.h).
#include "lathe/optim/lookahead.h"

#include <algorithm>
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

Tensor Lookahead::step(const StepOptions& options) {
  std::vector<UpdateItem> items;
  if ((steps_ + 1) % options_.k == 0) {
    for (size_t i = 0; i < params_.size(); ++i) {
      const Tensor& p = params_[i];
      LATHE_CHECK(StateError,
                  p.shape() == slow_[i].shape() && same_order(p, slow_[i]) &&
                      p.device() == slow_[i].device() &&
                      (p.dtype() == kF64) == (slow_[i].dtype() == kF64),
                  "Lookahead: parameter ", i, " no longer fits its slow weight (parameter: ", p,
                  ", slow: ", slow_[i], ")");
      items.push_back({.n = p.numel(),
                       .dtype = p.dtype(),
                       .device = p.device(),
                       .step = 1,
                       .param = p.raw_data(),
                       .grad = p.raw_data(),  // not used
                       .buffers = {slow_[i].raw_data()}});
    }
    std::ranges::stable_sort(items, {}, &UpdateItem::kind);
  }
  Tensor total = optimizer_.step(options);
  ++steps_;
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end = std::find_if(
        begin, items.end(), [&](const UpdateItem& item) { return item.device != begin->device; });
    LATHE_DISPATCH(begin->device, rule_update(std::span<const UpdateItem>(begin, end), options_));
    begin = end;
  }
  if (items.empty()) return total;
  for (const Tensor& p : params_) p.bump_version();
  for (const Tensor& s : slow_) s.bump_version();
  return total;
}

StateDict Lookahead::state_dict() const {
  StateDict out;
  out.add_number("steps", steps_);
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
}

}  // namespace lathe::optim
