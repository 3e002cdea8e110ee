// SGD; see optimizer.h for groups and state, kernels/update_math.h for the formula.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;  // part of g kept out of the momentum buffer from the second step on
  double weight_decay = 0;
  bool nesterov = false;
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct SGDGroup {
  Tensors params;
  std::optional<double> lr = {}, momentum = {}, dampening = {}, weight_decay = {};
  std::optional<bool> nesterov = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(SGDOptions& all, Visit visit, const SGDGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("momentum", all.momentum, own.momentum, Range::kNotNegative);
  visit("dampening", all.dampening, own.dampening, Range::kFinite);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("nesterov", all.nesterov, own.nesterov, Range::kSwitch);
}

/// Stochastic gradient descent with momentum:
///   g += weight_decay·p
///   b = momentum·b + (1 - dampening)·g; the first b is g
///   p -= lr·(nesterov ? g + momentum·b : b)
/// State: momentum_buffer if momentum is not 0.
/// throws: what Optimizer::add_groups throws; ValueError in these cases:
///   - lr, momentum or weight_decay is negative or not finite
///   - dampening is not finite
///   - nesterov without momentum or with dampening
class LATHE_API SGD final : public Optimizer {
 public:
  explicit SGD(Tensors params, const SGDOptions& options = {});
  SGD(Tensors params, std::floating_point auto lr) : SGD(std::move(params), SGDOptions{.lr = lr}) {}
  explicit SGD(std::vector<SGDGroup> groups, const SGDOptions& options = {});

 private:
  void check_together(const HyperParameters& hyper) const override;
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
