// NovoGrad; see optimizer.h for groups and state, kernels/layerwise_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/adam.h"

namespace lathe::optim {

struct NovoGradOptions {
  double lr = 0.01;
  Betas betas = {.first = 0.95, .second = 0.98};
  double eps = 1e-8;
  double weight_decay = 0;
  bool grad_averaging = false;  // true: multiplies what enters the first moment by 1 - betas.first
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct NovoGradGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {}, weight_decay = {};
  std::optional<bool> grad_averaging = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(NovoGradOptions& all, Visit visit, const NovoGradGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("grad_averaging", all.grad_averaging, own.grad_averaging, Range::kSwitch);
}

/// Momentum over gradients that are normalised for each parameter tensor, with decoupled decay.
/// Needs half the state of Adam.
///   v = running mean of ‖g‖², one number per tensor; in the first step v = ‖g‖²
///   m = beta1·m + g / (sqrt(v) + eps) + weight_decay·p;   p -= lr·m
/// There is no bias correction: v starts at its first value, m at 0. Unlike the paper, the first
/// step also adds eps, so that a gradient of 0 does not give 0 / 0. Norms are summed in f64. State:
/// exp_avg, exp_avg_sq (0-d).
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or a beta is outside
/// [0,1); what Optimizer::add_groups throws.
/// ref: Ginsburg et al. 2019 (arXiv:1905.11286).
class LATHE_API NovoGrad final : public Optimizer {
 public:
  explicit NovoGrad(Tensors params, const NovoGradOptions& options = {});
  explicit NovoGrad(std::vector<NovoGradGroup> groups, const NovoGradOptions& options = {});

 private:
  bool measures_norms() const override { return true; }
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
