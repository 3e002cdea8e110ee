// LAMB: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/lamb.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

LAMB::LAMB(Tensors params, const LAMBOptions& options)
    : LAMB(std::vector<LAMBGroup>{{.params = std::move(params)}}, options) {}

LAMB::LAMB(std::vector<LAMBGroup> groups, const LAMBOptions& o)
    : Optimizer("LAMB", {"exp_avg", "exp_avg_sq"}) {
  for (LAMBGroup& g : groups) {
    const Betas betas = g.betas.value_or(o.betas);
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"beta1", betas.first},
               {"beta2", betas.second},
               {"eps", g.eps.value_or(o.eps)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"bias_correction", g.bias_correction.value_or(o.bias_correction) ? 1.0 : 0.0},
               {"adapt", g.adapt.value_or(o.adapt) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void LAMB::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "eps", "weight_decay"}) check_not_negative(hyper, name);
  for (const char* name : {"beta1", "beta2"}) check_below_one(hyper, name);
}

bool LAMB::needs_buffer(size_t, const HyperParameters&) const { return true; }

void LAMB::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const LambNumbers numbers{.lr = hyper("lr"),
                            .beta1 = hyper("beta1"),
                            .beta2 = hyper("beta2"),
                            .eps = hyper("eps"),
                            .weight_decay = hyper("weight_decay"),
                            .bias_correction = hyper("bias_correction") != 0,
                            .adapt = hyper("adapt") != 0};
  LATHE_DISPATCH(items.front().device, lamb_update(items, numbers));
}

}  // namespace lathe::optim
