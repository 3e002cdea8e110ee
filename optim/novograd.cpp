// NovoGrad: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/novograd.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

NovoGrad::NovoGrad(Tensors params, const NovoGradOptions& options)
    : NovoGrad(std::vector<NovoGradGroup>{{.params = std::move(params)}}, options) {}

NovoGrad::NovoGrad(std::vector<NovoGradGroup> groups, const NovoGradOptions& o)
    : Optimizer("NovoGrad", {"exp_avg", {"exp_avg_sq", true}}) {
  for (NovoGradGroup& g : groups) {
    const Betas betas = g.betas.value_or(o.betas);
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"beta1", betas.first},
               {"beta2", betas.second},
               {"eps", g.eps.value_or(o.eps)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"grad_averaging", g.grad_averaging.value_or(o.grad_averaging) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void NovoGrad::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "eps", "weight_decay"}) check_not_negative(hyper, name);
  for (const char* name : {"beta1", "beta2"}) check_below_one(hyper, name);
}

bool NovoGrad::needs_buffer(size_t, const HyperParameters&) const { return true; }

void NovoGrad::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const NovogradNumbers numbers{.lr = hyper("lr"),
                                .beta1 = hyper("beta1"),
                                .beta2 = hyper("beta2"),
                                .eps = hyper("eps"),
                                .weight_decay = hyper("weight_decay"),
                                .grad_averaging = hyper("grad_averaging") != 0};
  LATHE_DISPATCH(items.front().device, novograd_update(items, numbers));
}

}  // namespace lathe::optim
