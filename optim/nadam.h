// NAdam; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/adam.h"
#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct NAdamOptions {
  static constexpr const char* kName = "NAdam";
  static constexpr std::string_view kBuffers[] = {"exp_avg", "exp_avg_sq"};

  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;        // added after the bias correction
  double weight_decay = 0;  // L2: added to the gradient
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  // true: p *= 1 - lr·weight_decay before the step
  bool master_weights = false;          // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct NAdamGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {};
  std::optional<double> weight_decay = {};
  std::optional<double> momentum_decay = {};
  std::optional<bool> decoupled_weight_decay = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(NAdamOptions& all, Visit visit, const NAdamGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("momentum_decay", all.momentum_decay, own.momentum_decay, Range::kNotNegative);
  visit("decoupled_weight_decay", all.decoupled_weight_decay, own.decoupled_weight_decay,
        Range::kSwitch);
}

/// Adam with Nesterov's momentum, which rises from beta1 / 2 to beta1.
///   g += weight_decay·p
///   m = running mean of g,  v = running mean of g²,  v̂ = v with bias correction
///   μ_t = beta1·(1 - 0.96^(t·momentum_decay) / 2),  M_t = μ_1·…·μ_t,   in step t = 1, 2, …
///   p -= lr·((1 - μ_t) / (1 - M_t)·g + μ_{t+1} / (1 - M_{t+1})·m) / (sqrt(v̂) + eps)
/// State: exp_avg (m), exp_avg_sq (v). M_t is computed from t; PyTorch keeps M_t in the state.
/// throws: ValueError if lr, eps, weight_decay or momentum_decay is negative or not finite, or a
/// beta is outside [0,1); what Optimizer::add_groups throws.
/// ref: Dozat 2016.
using NAdam = RuleOptimizer<NAdamOptions, NAdamGroup>;
extern template class LATHE_API RuleOptimizer<NAdamOptions, NAdamGroup>;

}  // namespace lathe::optim
