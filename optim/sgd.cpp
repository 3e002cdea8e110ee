// SGD: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/sgd.h"

#include <cmath>

#include "lathe/core/dispatch.h"

namespace lathe::optim {

SGD::SGD(Tensors params, const SGDOptions& options)
    : SGD(std::vector<SGDGroup>{{.params = std::move(params)}}, options) {}

SGD::SGD(std::vector<SGDGroup> groups, const SGDOptions& o)
    : Optimizer("SGD", {"momentum_buffer"}) {
  for (SGDGroup& g : groups) {
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"momentum", g.momentum.value_or(o.momentum)},
               {"dampening", g.dampening.value_or(o.dampening)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"nesterov", g.nesterov.value_or(o.nesterov) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void SGD::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "momentum", "weight_decay"}) check_not_negative(hyper, name);
  const double momentum = hyper("momentum"), dampening = hyper("dampening");
  LATHE_CHECK(ValueError, std::isfinite(dampening), name_, ": dampening must be finite, got ",
              dampening);
  LATHE_CHECK(ValueError, hyper("nesterov") == 0 || (momentum > 0 && dampening == 0), name_,
              ": nesterov needs a momentum above 0 and no dampening, got momentum ", momentum,
              " and dampening ", dampening);
}

bool SGD::needs_buffer(size_t, const HyperParameters& hyper) const {
  return hyper("momentum") != 0;
}

void SGD::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const SgdNumbers numbers{.lr = hyper("lr"),
                           .momentum = hyper("momentum"),
                           .dampening = hyper("dampening"),
                           .weight_decay = hyper("weight_decay"),
                           .nesterov = hyper("nesterov") != 0};
  LATHE_DISPATCH(items.front().device, sgd_update(items, numbers));
}

}  // namespace lathe::optim
