// LAMB; see optimizer.h for groups and state, kernels/layerwise_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/adam.h"

namespace lathe::optim {

struct LAMBOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-6;  // added after the bias correction
  double weight_decay = 0.01;
  bool bias_correction = true;
  // false: trust ratio 1 (AdamW with its decay inside the step), for biases and norms.
  bool adapt = true;
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct LAMBGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {}, weight_decay = {};
  std::optional<bool> bias_correction = {}, adapt = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(LAMBOptions& all, Visit visit, const LAMBGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("bias_correction", all.bias_correction, own.bias_correction, Range::kSwitch);
  visit("adapt", all.adapt, own.adapt, Range::kSwitch);
}

/// Adam for large batches: scales the step of each parameter tensor, decay included, to the
/// tensor's norm.
///   u = m̂ / (sqrt(v̂) + eps) + weight_decay·p;   p -= lr·‖p‖/‖u‖·u
/// m̂ and v̂ are the running means of g and g² with bias correction. The ratio ‖p‖/‖u‖ is replaced
/// by 1 if one of the norms is 0. Norms are summed in f64. Biases and norms usually belong in a
/// group {.weight_decay = 0, .adapt = false}: see split_by_decay() in param_groups.h. State:
/// exp_avg, exp_avg_sq.
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or a beta is outside
/// [0,1); what Optimizer::add_groups throws.
/// ref: You et al. 2019 (arXiv:1904.00962), whose φ is the identity here.
class LATHE_API LAMB final : public Optimizer {
 public:
  explicit LAMB(Tensors params, const LAMBOptions& options = {});
  explicit LAMB(std::vector<LAMBGroup> groups, const LAMBOptions& options = {});

 private:
  bool measures_norms() const override { return true; }
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
