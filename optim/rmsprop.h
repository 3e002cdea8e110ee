// RMSprop; see optimizer.h for groups and state, kernels/update_math.h for the formula.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // decay rate of the mean square
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;        // divide by the standard deviation instead of the root mean square
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct RMSpropGroup {
  Tensors params;
  std::optional<double> lr = {}, alpha = {}, eps = {}, weight_decay = {}, momentum = {};
  std::optional<bool> centered = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(RMSpropOptions& all, Visit visit, const RMSpropGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("alpha", all.alpha, own.alpha, Range::kBelowOne);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("momentum", all.momentum, own.momentum, Range::kNotNegative);
  visit("centered", all.centered, own.centered, Range::kSwitch);
}

/// Divides the gradient g of each parameter p by the root of the running mean of its squares.
///   g += weight_decay·p
///   v = running mean of g²
///   p -= lr·g / (sqrt(v) + eps), optionally centred and with momentum
/// State: square_avg; momentum_buffer if momentum is not 0; grad_avg if centred.
/// throws: ValueError if lr, eps, weight_decay or momentum is negative or not finite, or alpha is
/// outside [0,1); what Optimizer::add_groups throws.
class LATHE_API RMSprop final : public Optimizer {
 public:
  explicit RMSprop(Tensors params, const RMSpropOptions& options = {});
  RMSprop(Tensors params, std::floating_point auto lr)
      : RMSprop(std::move(params), RMSpropOptions{.lr = lr}) {}
  explicit RMSprop(std::vector<RMSpropGroup> groups, const RMSpropOptions& options = {});

 private:
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
