// LARS; see optimizer.h for groups and state, kernels/layerwise_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct LARSOptions {
  double lr = 1;  // the global rate; with trust ratios usually 1 or more
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;  // how far a layer moves in a step, relative to its norm
  bool adapt = true;                 // false: trust ratio 1, for biases and norms
  bool master_weights = false;       // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct LARSGroup {
  Tensors params;
  std::optional<double> lr = {}, momentum = {}, weight_decay = {}, trust_coefficient = {};
  std::optional<bool> adapt = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(LARSOptions& all, Visit visit, const LARSGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("momentum", all.momentum, own.momentum, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("trust_coefficient", all.trust_coefficient, own.trust_coefficient, Range::kNotNegative);
  visit("adapt", all.adapt, own.adapt, Range::kSwitch);
}

/// Momentum SGD for large batches: each parameter tensor has a rate of its own, proportional to its
/// norm divided by its gradient's norm.
///   λ = trust_coefficient·‖p‖ / (‖g‖ + weight_decay·‖p‖), or 1 if ‖p‖ or ‖g‖ is 0
///   b = momentum·b + lr·λ·(g + weight_decay·p);   p -= b
/// Norms are summed in f64. With clipping or loss scaling, ‖g‖ is the norm after clipping and
/// unscaling. Biases and norms usually belong in a group {.weight_decay = 0, .adapt = false}: see
/// split_by_decay() in param_groups.h. Such a group uses lr without λ, so give it a smaller lr.
/// State: momentum_buffer.
/// throws: ValueError for an option that is negative or not finite; what Optimizer::add_groups
/// throws.
/// ref: You, Gitman and Ginsburg 2017 (arXiv:1708.03888).
class LATHE_API LARS final : public Optimizer {
 public:
  explicit LARS(Tensors params, const LARSOptions& options = {});
  explicit LARS(std::vector<LARSGroup> groups, const LARSOptions& options = {});

 private:
  bool measures_norms() const override { return true; }
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
