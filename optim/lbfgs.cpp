// LBFGS: the iterations, over one flat vector of all parameters; its state. Contract: lbfgs.h.
#include "lathe/optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/line_search.h"

namespace lathe::optim {

namespace {

double dot_of(const Tensor& a, const Tensor& b) { return sum(mul(a, b)).item<double>(); }
double largest(const Tensor& t) { return t.numel() == 0 ? 0 : max(abs(t)).item<double>(); }

void check_option(const char* name, double value, bool good) {
  LATHE_CHECK(ValueError, good, "LBFGS: ", name, " cannot be ", value);
}

}  // namespace

void LBFGS::check(const LBFGSOptions& o) {
  const auto not_negative = [](double v) { return std::isfinite(v) && v >= 0; };
  check_option("lr", o.lr, not_negative(o.lr));
  check_option("max_iter", static_cast<double>(o.max_iter), o.max_iter > 0);
  check_option("max_eval", static_cast<double>(o.max_eval.value_or(1)), o.max_eval.value_or(1) > 0);
  check_option("tolerance_grad", o.tolerance_grad, not_negative(o.tolerance_grad));
  check_option("tolerance_change", o.tolerance_change, not_negative(o.tolerance_change));
  check_option("history_size", static_cast<double>(o.history_size), o.history_size > 0);
}

LBFGS::LBFGS(const Tensors& params, const LBFGSOptions& options)
    : params_(params), options_(options) {
  check(options);
  LATHE_CHECK(ValueError, !params.empty(), "LBFGS: no parameters");
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    LATHE_CHECK(ValueError, p.defined(), "LBFGS: parameter ", i, " is undefined");
    LATHE_CHECK(DTypeError,
                p.dtype() == params[0].dtype() && (p.dtype() == kF32 || p.dtype() == kF64),
                "LBFGS: parameters must be all f32 or all f64 (parameter 0: ", params[0],
                ", parameter ", i, ": ", p, ")");
    LATHE_CHECK(DeviceError, p.device() == params[0].device(),
                "LBFGS: parameters must be on one device (parameter 0: ", params[0], ", parameter ",
                i, ": ", p, ")");
    LATHE_CHECK(StateError, p.is_leaf(), "LBFGS: parameter ", i, " is not a leaf (", p, ")");
    for (size_t j = 0; j < i; ++j) {
      LATHE_CHECK(ValueError, !p.is_same(params[j]), "LBFGS: parameters ", j, " and ", i,
                  " are the same (", p, ")");
    }
  }
}

// --- one flat vector -----------------------------------------------------------------------------

Tensor LBFGS::flat_params() const {
  Tensors parts;
  for (const Tensor& p : params_) parts.push_back(reshape(p.detach(), {p.numel()}));
  return cat(parts);
}

Tensor LBFGS::flat_gradient() const {
  Tensors parts;
  for (const Tensor& p : params_) {
    const Tensor g = p.grad();
    parts.push_back(reshape(g.defined() ? g.detach() : zeros_like(p.detach()), {p.numel()}));
  }
  return cat(parts);
}

void LBFGS::move_to(const Tensor& x) const {
  int64_t at = 0;
  for (const Tensor& p : params_) {
    p.copy_(reshape(narrow(x, 0, at, p.numel()), p.shape()));
    at += p.numel();
  }
}

LBFGS::Evaluation LBFGS::evaluate(const Closure& closure, Tensor* loss) const {
  Tensor value;
  {
    const EnableGrad on;
    const profile::MemoryTagScope program(profile::MemoryTag::kOther);  // not of the optimiser
    value = closure();
  }
  LATHE_CHECK(ShapeError, value.defined() && value.numel() == 1,
              "LBFGS: the closure must return the loss, one number (it returned ", value, ")");
  value = value.detach();
  if (loss != nullptr) *loss = value;
  return {value.item<double>(), flat_gradient()};
}

// --- the iterations ------------------------------------------------------------------------------

Tensor LBFGS::step(const Closure& closure) {
  const profile::OpRange range("LBFGS", {}, profile::Kind::kOptimizer);
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  const NoGrad off;
  const Tensor before = flat_params();
  State state = state_;  // its tensors are never written, so this copy of handles is one of values
  Tensor loss;
  try {
    const Evaluation now = evaluate(closure, &loss);
    ++state.evaluations;
    if (largest(now.gradient) > options_.tolerance_grad) iterate(state, closure, now);
  } catch (...) {
    move_to(before);
    throw;
  }
  state_ = std::move(state);
  return loss;
}

void LBFGS::iterate(State& state, const Closure& closure, Evaluation now) const {
  const int64_t first_evaluation = state.evaluations - 1;
  const int64_t max_eval = options_.max_eval.value_or(options_.max_iter * 5 / 4);
  for (int64_t i = 1; i <= options_.max_iter; ++i) {
    if (++state.iterations > 1) remember(state, now.gradient);
    state.direction = direction(state, now.gradient);
    state.gradient = now.gradient;
    state.loss = now.loss;
    state.t = options_.lr;
    if (state.iterations == 1) {
      state.t *= std::min(1.0, 1.0 / sum(abs(now.gradient)).item<double>());
    }
    const double slope = dot_of(now.gradient, state.direction);
    if (slope > -options_.tolerance_change) return;
    if (options_.strong_wolfe) {
      now = search(state, closure, now, slope);
    } else {
      move_to(add(flat_params(), mul(state.direction, state.t)));
      if (i == options_.max_iter) return;  // the next step() computes this loss
      now = evaluate(closure);
      ++state.evaluations;
    }
    const bool ends = i == options_.max_iter || state.evaluations - first_evaluation >= max_eval ||
                      largest(now.gradient) <= options_.tolerance_grad ||
                      largest(state.direction) * state.t <= options_.tolerance_change ||
                      std::abs(now.loss - state.loss) < options_.tolerance_change;
    if (ends) return;
  }
}

/// Adds the changes of the iteration before, if they show a positive curvature.
void LBFGS::remember(State& state, const Tensor& gradient) const {
  const Tensor y = sub(gradient, state.gradient), s = mul(state.direction, state.t);
  const double ys = dot_of(y, s);
  if (!(ys > 1e-10)) return;
  while (state.pairs.size() >= static_cast<size_t>(options_.history_size)) state.pairs.pop_front();
  state.pairs.push_back({y, s, 1 / ys});
  state.curvature = ys / dot_of(y, y);
}

/// -H g by the two-loop recursion.
Tensor LBFGS::direction(const State& state, const Tensor& gradient) {
  const size_t n = state.pairs.size();
  std::vector<double> alpha(n);
  Tensor d = neg(gradient);
  for (size_t i = n; i-- > 0;) {
    const Pair& pair = state.pairs[i];
    alpha[i] = dot_of(pair.s, d) * pair.reciprocal;
    d = sub(d, mul(pair.y, alpha[i]));
  }
  d = mul(d, state.curvature);
  for (size_t i = 0; i < n; ++i) {
    const Pair& pair = state.pairs[i];
    d = add(d, mul(pair.s, alpha[i] - dot_of(pair.y, d) * pair.reciprocal));
  }
  return d;
}

LBFGS::Evaluation LBFGS::search(State& state, const Closure& closure, const Evaluation& now,
                                double slope) const {
  const Tensor x = flat_params();
  const auto at = [&](double t) {
    move_to(add(x, mul(state.direction, t)));
    const Evaluation there = evaluate(closure);
    return LinePoint{t, there.loss, dot_of(there.gradient, state.direction), there.gradient};
  };
  const LinePoint start{0, now.loss, slope, now.gradient};
  const LineSearchResult found =
      search_line(start, state.t, at,
                  {.largest_component = largest(state.direction), .tolerance_change = 1e-9});
  state.t = found.point.t;
  state.evaluations += found.evaluations;
  move_to(add(x, mul(state.direction, state.t)));
  return {found.point.loss, found.point.gradient};
}

// --- rates and state -----------------------------------------------------------------------------

void LBFGS::zero_grad(ZeroGradOptions options) const {
  const NoGrad off;
  for (const Tensor& p : params_) {
    const Tensor g = p.grad();
    if (options.set_to_none) {
      p.set_grad({});
    } else if (g.defined()) {
      g.zero_();
    }
  }
}

void LBFGS::set_lr(double lr) {
  LBFGSOptions changed = options_;
  changed.lr = lr;
  check(changed);
  options_ = changed;
}

}  // namespace lathe::optim
