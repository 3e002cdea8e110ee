// LARS: its buffer, and the dispatch of an update.
#include "lathe/optim/lars.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

LARS::LARS(Tensors params, const LARSOptions& options)
    : LARS(std::vector<LARSGroup>{{.params = std::move(params)}}, options) {}

LARS::LARS(std::vector<LARSGroup> groups, const LARSOptions& options)
    : Optimizer("LARS", {{.name = "momentum_buffer"}}) {
  add_groups(std::move(groups), options);
}

void LARS::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, lars_update(items, options_of<LARSOptions>(hyper)));
}

}  // namespace lathe::optim
