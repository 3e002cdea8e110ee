// LAMB: its buffers, and the dispatch of an update.
#include "lathe/optim/lamb.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

LAMB::LAMB(Tensors params, const LAMBOptions& options)
    : LAMB(std::vector<LAMBGroup>{{.params = std::move(params)}}, options) {}

LAMB::LAMB(std::vector<LAMBGroup> groups, const LAMBOptions& options)
    : Optimizer("LAMB", {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}) {
  add_groups(std::move(groups), options);
}

void LAMB::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, lamb_update(items, options_of<LAMBOptions>(hyper)));
}

}  // namespace lathe::optim
