// RuleOptimizer: an optimiser that is a formula of single elements and its options. adagrad.h,
// adadelta.h, adamax.h, nadam.h, radam.h and lion.h name them; kernels/element_rules.h has the
// formulas; see optimizer.h for groups and state.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

/// `Options` has two constants besides the options: kName, and kBuffers, the names of the buffers
/// in the state. `OptionsGroup` are parameters with options of their own (Note [One list of
/// options]).
template <class Options, class OptionsGroup>
class RuleOptimizer final : public Optimizer {
 public:
  explicit RuleOptimizer(Tensors params, const Options& options = {});
  RuleOptimizer(Tensors params, std::floating_point auto lr)
      : RuleOptimizer(std::move(params), Options{.lr = lr}) {}
  explicit RuleOptimizer(std::vector<OptionsGroup> groups, const Options& options = {});

 private:
  static std::vector<BufferName> buffers();
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
