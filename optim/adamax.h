// Adamax; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/adam.h"
#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct AdamaxOptions {
  static constexpr const char* kName = "Adamax";
  static constexpr std::string_view kBuffers[] = {"exp_avg", "exp_inf"};

  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0;      // L2: added to the gradient
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct AdamaxGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {};
  std::optional<double> weight_decay = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(AdamaxOptions& all, Visit visit, const AdamaxGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
}

/// Adam with the largest recent gradient in place of the root mean square.
///   g += weight_decay·p
///   m = running mean of g
///   u = max(beta2·u, |g| + eps)
///   p -= lr / (1 - beta1^t)·m / u,   in step t = 1, 2, …
/// State: exp_avg (m), exp_inf (u).
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or a beta is outside
/// [0,1); what Optimizer::add_groups throws.
/// ref: Kingma and Ba 2015 (arXiv:1412.6980), section 7.1.
using Adamax = RuleOptimizer<AdamaxOptions, AdamaxGroup>;
extern template class LATHE_API RuleOptimizer<AdamaxOptions, AdamaxGroup>;

}  // namespace lathe::optim
