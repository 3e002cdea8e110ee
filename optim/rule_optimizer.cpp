// RuleOptimizer: the dispatch of an update, and the optimisers that there are.
#include "lathe/optim/rule_optimizer.h"

#include "lathe/core/dispatch.h"
#include "lathe/optim/adadelta.h"
#include "lathe/optim/adagrad.h"
#include "lathe/optim/adamax.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/nadam.h"
#include "lathe/optim/radam.h"

namespace lathe::optim {

template <class Options, class OptionsGroup>
RuleOptimizer<Options, OptionsGroup>::RuleOptimizer(Tensors params, const Options& options)
    : RuleOptimizer(std::vector<OptionsGroup>{{.params = std::move(params)}}, options) {}

template <class Options, class OptionsGroup>
RuleOptimizer<Options, OptionsGroup>::RuleOptimizer(std::vector<OptionsGroup> groups,
                                                    const Options& options)
    : Optimizer(Options::kName, buffers()) {
  add_groups(std::move(groups), options);
}

template <class Options, class OptionsGroup>
std::vector<Optimizer::BufferName> RuleOptimizer<Options, OptionsGroup>::buffers() {
  std::vector<BufferName> out;
  for (const std::string_view name : Options::kBuffers) out.push_back({.name = name});
  return out;
}

template <class Options, class OptionsGroup>
void RuleOptimizer<Options, OptionsGroup>::update(const HyperParameters& hyper,
                                                  std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, rule_update(items, options_of<Options>(hyper)));
}

template class RuleOptimizer<AdagradOptions, AdagradGroup>;
template class RuleOptimizer<AdadeltaOptions, AdadeltaGroup>;
template class RuleOptimizer<AdamaxOptions, AdamaxGroup>;
template class RuleOptimizer<NAdamOptions, NAdamGroup>;
template class RuleOptimizer<RAdamOptions, RAdamGroup>;
template class RuleOptimizer<LionOptions, LionGroup>;

}  // namespace lathe::optim
