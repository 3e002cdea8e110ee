// Lookahead: its state, and the step of all slow weights at once (LookaheadRule in
// kernels/element_rules.h).
#include "lathe/optim/lookahead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/autograd/half_copy.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/state_entries.h"
#include "lathe/core/stream.h"

namespace lathe::optim {

/// A count of steps in the memory of a GPU.
static Tensor make_count(int64_t steps, Device device) {
  LATHE_CHECK(
      StateError, !lathe::cuda::is_capturing(current_stream(device)),
      "Lookahead: a capture cannot begin the count of steps, because each launch would begin "
      "it again; call set_capturable() before the capture");
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  const Tensor count = empty({}, {.dtype = kI64, .device = device});
  fill_values(count, steps);
  return count;
}

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

void Lookahead::set_capturable() {
  for (size_t i = 0; i < params_.size(); ++i) {
    LATHE_CHECK(DeviceError, params_[i].device() == params_.front().device(),
                "Lookahead: set_capturable() needs all parameters on one device, and parameter ", i,
                " is on ", params_[i].device(), ", others on ", params_.front().device());
  }
  if (count_.defined() || params_.empty() || params_.front().device().is_cpu()) return;
  count_ = make_count(steps_, params_.front().device());
}

Lookahead::Pending Lookahead::gather(Device flag) {
  Pending out;
  if (!flag.is_cuda() && !is_due()) return out;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& p = params_[i];
    LATHE_CHECK(StateError,
                p.shape() == slow_[i].shape() && same_order(p, slow_[i]) &&
                    p.device() == slow_[i].device() &&
                    (p.dtype() == kF64) == (slow_[i].dtype() == kF64),
                "Lookahead: parameter ", i, " no longer fits its slow weight (parameter: ", p,
                ", slow: ", slow_[i], ")");
    LATHE_CHECK(DeviceError, !flag.is_cuda() || p.device() == flag,
                "Lookahead: found_inf is on another device than parameter ", i, " (found_inf on ",
                flag, ", parameter: ", p, ")");
    out.items.push_back({.n = p.numel(),
                         .dtype = p.dtype(),
                         .device = p.device(),
                         .step = steps_ + 1,
                         .param = p.raw_data(),
                         .grad = p.raw_data(),  // not used
                         .buffers = {slow_[i].raw_data()},
                         .counted = true});
  }
  out.half_copies.resize(out.items.size());
  if (flag.is_cuda() && !count_.defined()) count_ = make_count(steps_, flag);
  return out;
}

/// Nothing may fail here, because the optimiser has made its step.
void Lookahead::follow(Pending pending, const Tensor& found_inf) {
  const bool on_device = found_inf.defined() && found_inf.device().is_cuda();
  if (found_inf.defined() && !on_device && found_inf.item<float>() != 0) return;
  ++steps_;
  auto& [items, half_copies] = pending;
  if (items.empty()) return;
  for (size_t i = 0; i < items.size(); ++i) {
    UpdateItem& item = items[i];
    item.found_inf = on_device ? found_inf.data<float>() : nullptr;
    item.count = count_.defined() ? count_.data<int64_t>() : nullptr;
    half_copies[i] = amp::half_copy_to_write(params_[i]);
    if (!half_copies[i].defined()) continue;
    item.half_copy = half_copies[i].dtype();
    item.copy = half_copies[i].raw_data();
  }
  std::ranges::stable_sort(items, {}, &UpdateItem::kind);
  items.front().counted = false;  // they share one count
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end = std::find_if(
        begin, items.end(), [&](const UpdateItem& item) { return item.device != begin->device; });
    LATHE_DISPATCH(begin->device, rule_update(std::span<const UpdateItem>(begin, end), options_));
    begin = end;
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    params_[i].bump_version();
    amp::half_copy_written(params_[i], half_copies[i]);
    slow_[i].bump_version();
  }
}

Tensor Lookahead::step(const StepOptions& options) {
  const Tensor& flag = options.found_inf;
  Pending pending = gather(flag.defined() ? flag.device() : kCPU);
  Tensor total = optimizer_.step(options);
  follow(std::move(pending), flag);
  return total;
}

Tensor Lookahead::step(GradScaler& scaler, const ScaledStepOptions& options) {
  Pending pending = gather(scaler.scale_.defined() ? scaler.scale_.device() : kCPU);
  Tensor total = scaler.step(optimizer_, options);
  follow(std::move(pending), scaler.found_inf(optimizer_));
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
  if (count_.defined()) count_ = make_count(steps, count_.device());
  slow_ = std::move(loaded);
  steps_ = steps;
}

}  // namespace lathe::optim
