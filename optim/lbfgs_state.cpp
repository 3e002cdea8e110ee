// The state of LBFGS by name, for checkpoints.
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/state_entries.h"
#include "lathe/optim/lbfgs.h"

namespace lathe::optim {

namespace {

std::string pair_name(size_t i, const char* part) { return concat("pair.", i, ".", part); }

/// A copy of `entry` in the dtype and on the device of the parameters.
Tensor vector_like(const Tensor& entry, const std::string& name, const Tensor& param,
                   int64_t length) {
  LATHE_CHECK(ValueError, entry.shape() == Shape{length} && is_floating(entry.dtype()),
              "LBFGS: ", name, " is ", entry, " instead of ", param.dtype(), Shape{length});
  const Tensor copy = empty({length}, {.dtype = param.dtype(), .device = param.device()});
  copy_values(copy, entry);
  return copy;
}

}  // namespace

StateDict LBFGS::state_dict() const {
  StateDict out;
  out.add_number("lr", options_.lr);
  out.add_number("max_iter", options_.max_iter);
  out.add_number("max_eval", options_.max_eval.value_or(0));
  out.add_number("tolerance_grad", options_.tolerance_grad);
  out.add_number("tolerance_change", options_.tolerance_change);
  out.add_number("history_size", options_.history_size);
  out.add_number("strong_wolfe", options_.strong_wolfe);
  out.add_number("evaluations", state_.evaluations);
  out.add_number("iterations", state_.iterations);
  if (state_.iterations == 0) return out;
  out.add_number("t", state_.t);
  out.add_number("curvature", state_.curvature);
  out.add_number("loss", state_.loss);
  out.add("direction", state_.direction);
  out.add("gradient", state_.gradient);
  for (size_t i = 0; i < state_.pairs.size(); ++i) {
    out.add(pair_name(i, "y"), state_.pairs[i].y);
    out.add(pair_name(i, "s"), state_.pairs[i].s);
    out.add_number(pair_name(i, "reciprocal"), state_.pairs[i].reciprocal);
  }
  return out;
}

void LBFGS::load_state_dict(const StateDict& state) {
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  const NoGrad off;
  LBFGSOptions options;
  options.lr = state.number<double>("lr");
  options.max_iter = state.count("max_iter");
  if (const int64_t max_eval = state.count("max_eval"); max_eval != 0) options.max_eval = max_eval;
  options.tolerance_grad = state.number<double>("tolerance_grad");
  options.tolerance_change = state.number<double>("tolerance_change");
  options.history_size = state.count("history_size");
  options.strong_wolfe = state.number<bool>("strong_wolfe");

  LBFGS other(params_, options);
  State& loaded = other.state_;
  loaded.evaluations = state.count("evaluations");
  loaded.iterations = state.count("iterations");
  if (loaded.iterations > 0) {
    int64_t length = 0;
    for (const Tensor& p : params_) length += p.numel();
    const auto vector = [&](const std::string& name) {
      return vector_like(state.at(name), state.full_name(name), params_[0], length);
    };
    loaded.t = state.number<double>("t");
    loaded.curvature = state.number<double>("curvature");
    loaded.loss = state.number<double>("loss");
    loaded.direction = vector("direction");
    loaded.gradient = vector("gradient");
    for (size_t i = 0; !state.section(pair_name(i, "")).empty(); ++i) {
      loaded.pairs.push_back({vector(pair_name(i, "y")), vector(pair_name(i, "s")),
                              state.number<double>(pair_name(i, "reciprocal"))});
    }
  }
  check_entries("LBFGS", state, other.state_dict());
  options_ = options;
  state_ = std::move(loaded);
}

}  // namespace lathe::optim
