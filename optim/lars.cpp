// LARS: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/lars.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

LARS::LARS(Tensors params, const LARSOptions& options)
    : LARS(std::vector<LARSGroup>{{.params = std::move(params)}}, options) {}

LARS::LARS(std::vector<LARSGroup> groups, const LARSOptions& o)
    : Optimizer("LARS", {"momentum_buffer"}) {
  for (LARSGroup& g : groups) {
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"momentum", g.momentum.value_or(o.momentum)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"trust_coefficient", g.trust_coefficient.value_or(o.trust_coefficient)},
               {"adapt", g.adapt.value_or(o.adapt) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void LARS::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "momentum", "weight_decay", "trust_coefficient"})
    check_not_negative(hyper, name);
}

bool LARS::needs_buffer(size_t, const HyperParameters&) const { return true; }

void LARS::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const LarsNumbers numbers{.lr = hyper("lr"),
                            .momentum = hyper("momentum"),
                            .weight_decay = hyper("weight_decay"),
                            .trust_coefficient = hyper("trust_coefficient"),
                            .adapt = hyper("adapt") != 0};
  LATHE_DISPATCH(items.front().device, lars_update(items, numbers));
}

}  // namespace lathe::optim
