// SGD; see optimizer.h for groups and state, kernels/update_math.h for the formula.
#pragma once

#include <optional>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;  // part of g kept out of the momentum buffer from the second step on
  double weight_decay = 0;
  bool nesterov = false;
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_group
};

/// Parameters with options of their own. An absent option is that of the optimiser.
struct SGDGroup {
  Tensors params;
  std::optional<double> lr = {}, momentum = {}, dampening = {}, weight_decay = {};
  std::optional<bool> nesterov = {};
};

/// Stochastic gradient descent with momentum:
///   g += weight_decay·p
///   b = momentum·b + (1 - dampening)·g; the first b is g
///   p -= lr·(nesterov ? g + momentum·b : b)
/// State: momentum_buffer if momentum is not 0.
/// throws: ValueError for lr, momentum or weight_decay that is negative or not finite, dampening
/// that is not finite, nesterov without momentum or with dampening; see also Optimizer::add_group.
class LATHE_API SGD final : public Optimizer {
 public:
  explicit SGD(Tensors params, const SGDOptions& options = {});
  explicit SGD(std::vector<SGDGroup> groups, const SGDOptions& options = {});

 private:
  void check(const HyperParameters& hyper) const override;
  bool needs_buffer(size_t buffer, const HyperParameters& hyper) const override;
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
