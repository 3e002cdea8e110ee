// NovoGrad: its buffers, and the dispatch of an update.
#include "lathe/optim/novograd.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

NovoGrad::NovoGrad(Tensors params, const NovoGradOptions& options)
    : NovoGrad(std::vector<NovoGradGroup>{{.params = std::move(params)}}, options) {}

NovoGrad::NovoGrad(std::vector<NovoGradGroup> groups, const NovoGradOptions& options)
    : Optimizer("NovoGrad", {{.name = "exp_avg"}, {.name = "exp_avg_sq", .per = Per::kTensor}}) {
  add_groups(std::move(groups), options);
}

void NovoGrad::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device, novograd_update(items, options_of<NovoGradOptions>(hyper)));
}

}  // namespace lathe::optim
