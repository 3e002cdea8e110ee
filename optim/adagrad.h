// Adagrad; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct AdagradOptions {
  static constexpr const char* kName = "Adagrad";
  static constexpr std::string_view kBuffers[] = {"sum"};

  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;               // L2: added to the gradient
  double initial_accumulator_value = 0;  // the sum of squares before the first step
  double eps = 1e-10;
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct AdagradGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<double> lr_decay = {};
  std::optional<double> weight_decay = {};
  std::optional<double> initial_accumulator_value = {};
  std::optional<double> eps = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(AdagradOptions& all, Visit visit, const AdagradGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("lr_decay", all.lr_decay, own.lr_decay, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("initial_accumulator_value", all.initial_accumulator_value, own.initial_accumulator_value,
        Range::kNotNegative);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
}

/// Divides each element's step by the root of the sum of all its squared gradients.
///   g += weight_decay·p
///   s += g²
///   p -= lr / (1 + (t - 1)·lr_decay) · g / (sqrt(s) + eps),   in step t = 1, 2, …
/// State: sum.
/// throws: ValueError for an option that is negative or not finite; what Optimizer::add_groups
/// throws.
/// ref: Duchi et al. 2011.
using Adagrad = RuleOptimizer<AdagradOptions, AdagradGroup>;
extern template class LATHE_API RuleOptimizer<AdagradOptions, AdagradGroup>;

}  // namespace lathe::optim
