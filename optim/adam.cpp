// Adam and AdamW: their buffers, and the dispatch of an update.
#include "lathe/optim/adam.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

AdamBase::AdamBase(const char* name, bool decoupled)
    : Optimizer(name, {{.name = "exp_avg"},
                       {.name = "exp_avg_sq"},
                       {.name = "max_exp_avg_sq", .only_if = "amsgrad"}}),
      decoupled_(decoupled) {}

void AdamBase::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  LATHE_DISPATCH(items.front().device,
                 adam_update(items, options_of<AdamOptions>(hyper), decoupled_));
}

Adam::Adam(Tensors params, const AdamOptions& options)
    : Adam(std::vector<AdamGroup>{{.params = std::move(params)}}, options) {}
Adam::Adam(std::vector<AdamGroup> groups, const AdamOptions& options) : AdamBase("Adam", false) {
  add_groups(std::move(groups), options);
}

AdamW::AdamW(Tensors params, const AdamWOptions& options)
    : AdamW(std::vector<AdamGroup>{{.params = std::move(params)}}, options) {}
AdamW::AdamW(std::vector<AdamGroup> groups, const AdamWOptions& options) : AdamBase("AdamW", true) {
  add_groups(std::move(groups), options);
}

}  // namespace lathe::optim
