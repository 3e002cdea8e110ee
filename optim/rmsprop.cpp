// RMSprop: its buffers, and the dispatch of an update.
#include "lathe/optim/rmsprop.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

RMSprop::RMSprop(Tensors params, const RMSpropOptions& options)
    : RMSprop(std::vector<RMSpropGroup>{{.params = std::move(params)}}, options) {}

RMSprop::RMSprop(std::vector<RMSpropGroup> groups, const RMSpropOptions& options)
    : Optimizer("RMSprop", {{.name = "square_avg"},
                            {.name = "momentum_buffer", .only_if = "momentum"},
                            {.name = "grad_avg", .only_if = "centered"}}) {
  add_groups(std::move(groups), options);
}

void RMSprop::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, rmsprop_update(items, options_of<RMSpropOptions>(hyper)));
}

}  // namespace lathe::optim
