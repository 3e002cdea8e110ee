// SGD: its buffer, the check of nesterov, and the dispatch of an update.
#include "lathe/optim/sgd.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

SGD::SGD(Tensors params, const SGDOptions& options)
    : SGD(std::vector<SGDGroup>{{.params = std::move(params)}}, options) {}

SGD::SGD(std::vector<SGDGroup> groups, const SGDOptions& options)
    : Optimizer("SGD", {{.name = "momentum_buffer", .only_if = "momentum"}}) {
  add_groups(std::move(groups), options);
}

void SGD::check_together(const HyperParameters& hyper) const {
  const auto o = options_of<SGDOptions>(hyper);
  LATHE_CHECK(ValueError, !o.nesterov || (o.momentum > 0 && o.dampening == 0), name_,
              ": nesterov needs a momentum above 0 and no dampening, got momentum ", o.momentum,
              " and dampening ", o.dampening);
}

void SGD::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, sgd_update(items, options_of<SGDOptions>(hyper)));
}

}  // namespace lathe::optim
