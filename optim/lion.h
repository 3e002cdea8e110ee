// Lion; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <optional>
#include <string_view>

#include "lathe/optim/adam.h"
#include "lathe/optim/rule_optimizer.h"

namespace lathe::optim {

struct LionOptions {
  static constexpr const char* kName = "Lion";
  static constexpr std::string_view kBuffers[] = {"exp_avg"};

  double lr = 1e-4;
  Betas betas = {.first = 0.9, .second = 0.99};
  double weight_decay = 0;      // p *= 1 - lr·weight_decay before the step
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct LionGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> weight_decay = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(LionOptions& all, Visit visit, const LionGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
}

/// Moves every element by lr, against the sign of a momentum. Its lr is usually 3 to 10 times
/// smaller than AdamW's, and its weight decay larger by the same factor. Needs half the state of
/// Adam.
///   p *= 1 - lr·weight_decay
///   p -= lr·sign(beta1·m + (1 - beta1)·g)
///   m = beta2·m + (1 - beta2)·g
/// State: exp_avg (m).
/// throws: ValueError if lr or weight_decay is negative or not finite, or a beta is outside [0,1);
/// what Optimizer::add_groups throws.
/// ref: Chen et al. 2023 (arXiv:2302.06675).
using Lion = RuleOptimizer<LionOptions, LionGroup>;
extern template class LATHE_API RuleOptimizer<LionOptions, LionGroup>;

}  // namespace lathe::optim
