// LARS; see optimizer.h for groups and state, layerwise_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct LARSOptions {
  double lr = 1;  // the global rate; with trust ratios it is of the order of 1 and more
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;  // how far a layer moves in a step, relative to its norm
  bool adapt = true;                 // false: trust ratio 1, for biases and norms
  bool master_weights = false;       // f32 values for half parameters: Optimizer::add_group
};

/// Parameters with options of their own; what is absent comes from the optimiser's options.
struct LARSGroup {
  Tensors params;
  std::optional<double> lr = {}, momentum = {}, weight_decay = {}, trust_coefficient = {};
  std::optional<bool> adapt = {};
};

/// Momentum SGD for large batches: each parameter tensor has a rate of its own, in proportion to
/// the ratio of its norm to its gradient's.
///   λ = trust_coefficient·‖p‖ / (‖g‖ + weight_decay·‖p‖), 1 where a norm is 0
///   b = momentum·b + lr·λ·(g + weight_decay·p);   p -= b
/// Norms are summed in double; with clipping and loss scaling they are those of the gradients that
/// the step finds. Biases and norms usually belong in a group {.weight_decay = 0, .adapt = false}:
/// split_by_decay() in param_groups.h. Such a group steps by lr itself, so it wants a smaller one.
/// State: momentum_buffer.
/// throws: ValueError for a number that is negative or not finite; and see Optimizer::add_group.
/// ref: You, Gitman and Ginsburg 2017 (arXiv:1708.03888).
class LATHE_API LARS final : public Optimizer {
 public:
  explicit LARS(Tensors params, const LARSOptions& options = {});
  explicit LARS(std::vector<LARSGroup> groups, const LARSOptions& options = {});

 private:
  void check(const HyperParameters& hyper) const override;
  bool needs_buffer(size_t buffer, const HyperParameters& hyper) const override;
  bool measures_norms() const override { return true; }
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
