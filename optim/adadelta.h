// Adadelta; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct AdadeltaOptions {
  static constexpr const char* kName = "Adadelta";
  static constexpr std::string_view kBuffers[] = {"square_avg", "acc_delta"};

  double lr = 1;
  double rho = 0.9;  // decay rate of both mean squares
  double eps = 1e-6;
  double weight_decay = 0;      // L2: added to the gradient
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct AdadeltaGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<double> rho = {};
  std::optional<double> eps = {};
  std::optional<double> weight_decay = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(AdadeltaOptions& all, Visit visit, const AdadeltaGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("rho", all.rho, own.rho, Range::kBelowOne);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
}

/// Multiplies the gradient by the root mean square of past steps, and divides it by the root mean
/// square of past gradients. So a step has the unit of the parameter.
///   g += weight_decay·p
///   v = running mean of g²
///   d = sqrt(u + eps) / sqrt(v + eps)·g
///   u = running mean of d²
///   p -= lr·d
/// State: square_avg (v), acc_delta (u).
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or rho is outside
/// [0,1); what Optimizer::add_groups throws.
/// ref: Zeiler 2012 (arXiv:1212.5701).
using Adadelta = RuleOptimizer<AdadeltaOptions, AdadeltaGroup>;
extern template class LATHE_API RuleOptimizer<AdadeltaOptions, AdadeltaGroup>;

}  // namespace lathe::optim
