// RMSprop; see optimizer.h for groups and state, kernels/update_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // decay rate of the mean square
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;        // divide by the standard deviation instead of the root mean square
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_group
};

/// Parameters with options of their own. An absent option is that of the optimiser.
struct RMSpropGroup {
  Tensors params;
  std::optional<double> lr = {}, alpha = {}, eps = {}, weight_decay = {}, momentum = {};
  std::optional<bool> centered = {};
};

/// g += weight_decay·p; v = running mean of g²; p -= lr·g / (sqrt(v) + eps), optionally centred and
/// with momentum. State: square_avg; momentum_buffer if momentum is not 0; grad_avg if centred.
/// throws: ValueError for lr, eps, weight_decay or momentum that is negative or not finite, or
/// alpha outside [0,1); see also Optimizer::add_group.
class LATHE_API RMSprop final : public Optimizer {
 public:
  explicit RMSprop(Tensors params, const RMSpropOptions& options = {});
  explicit RMSprop(std::vector<RMSpropGroup> groups, const RMSpropOptions& options = {});

 private:
  void check(const HyperParameters& hyper) const override;
  bool needs_buffer(size_t buffer, const HyperParameters& hyper) const override;
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
