// RMSprop: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/rmsprop.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

RMSprop::RMSprop(Tensors params, const RMSpropOptions& options)
    : RMSprop(std::vector<RMSpropGroup>{{.params = std::move(params)}}, options) {}

RMSprop::RMSprop(std::vector<RMSpropGroup> groups, const RMSpropOptions& o)
    : Optimizer("RMSprop", {"square_avg", "momentum_buffer", "grad_avg"}) {
  for (RMSpropGroup& g : groups) {
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"alpha", g.alpha.value_or(o.alpha)},
               {"eps", g.eps.value_or(o.eps)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"momentum", g.momentum.value_or(o.momentum)},
               {"centered", g.centered.value_or(o.centered) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void RMSprop::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "eps", "weight_decay", "momentum"})
    check_not_negative(hyper, name);
  check_below_one(hyper, "alpha");
}

bool RMSprop::needs_buffer(size_t buffer, const HyperParameters& hyper) const {
  if (buffer == 1) return hyper("momentum") != 0;
  return buffer == 0 || hyper("centered") != 0;
}

void RMSprop::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const RmspropNumbers numbers{.lr = hyper("lr"),
                               .alpha = hyper("alpha"),
                               .eps = hyper("eps"),
                               .weight_decay = hyper("weight_decay"),
                               .momentum = hyper("momentum"),
                               .centered = hyper("centered") != 0};
  LATHE_DISPATCH(items.front().device, rmsprop_update(items, numbers));
}

}  // namespace lathe::optim
