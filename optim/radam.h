// RAdam; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/adam.h"
#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct RAdamOptions {
  static constexpr const char* kName = "RAdam";
  static constexpr std::string_view kBuffers[] = {"exp_avg", "exp_avg_sq"};

  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;              // L2: added to the gradient
  bool decoupled_weight_decay = false;  // true: p *= 1 - lr·weight_decay before the step
  bool master_weights = false;          // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct RAdamGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {};
  std::optional<double> weight_decay = {};
  std::optional<bool> decoupled_weight_decay = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(RAdamOptions& all, Visit visit, const RAdamGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("decoupled_weight_decay", all.decoupled_weight_decay, own.decoupled_weight_decay,
        Range::kSwitch);
}

/// Adam whose first steps are plain momentum. Later steps (ρ > 5) divide by the root mean square of
/// the gradients, times a factor r that rises to 1.
///   g += weight_decay·p
///   m = running mean of g,  v = running mean of g²,  m̂ = m with bias correction
///   ρ = ρ∞ - 2t·beta2^t / (1 - beta2^t),  ρ∞ = 2 / (1 - beta2) - 1,   in step t = 1, 2, …
///   r = sqrt((ρ - 4)(ρ - 2)ρ∞ / ((ρ∞ - 4)(ρ∞ - 2)ρ))
///   p -= lr·m̂·(ρ > 5 ? r·sqrt(1 - beta2^t) / (sqrt(v) + eps) : 1)
/// State: exp_avg (m), exp_avg_sq (v).
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or a beta is outside
/// [0,1); what Optimizer::add_groups throws.
/// ref: Liu et al. 2020 (arXiv:1908.03265).
using RAdam = RuleOptimizer<RAdamOptions, RAdamGroup>;
extern template class LATHE_API RuleOptimizer<RAdamOptions, RAdamGroup>;

}  // namespace lathe::optim
