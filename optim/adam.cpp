// Adam and AdamW: hyper-parameters, their checks, and the dispatch of an update.
#include "lathe/optim/adam.h"

#include "lathe/core/dispatch.h"

namespace lathe::optim {

namespace {

AdamOptions as_adam(const AdamWOptions& o) {
  return {.lr = o.lr,
          .betas = o.betas,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .amsgrad = o.amsgrad,
          .master_weights = o.master_weights};
}

std::vector<AdamGroup> one_group(Tensors params) { return {{.params = std::move(params)}}; }

}  // namespace

AdamBase::AdamBase(const char* name, std::vector<AdamGroup> groups, const AdamOptions& o,
                   bool decoupled)
    : Optimizer(name, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}), decoupled_(decoupled) {
  for (AdamGroup& g : groups) {
    const Betas betas = g.betas.value_or(o.betas);
    add_group(std::move(g.params),
              {{"lr", g.lr.value_or(o.lr)},
               {"beta1", betas.first},
               {"beta2", betas.second},
               {"eps", g.eps.value_or(o.eps)},
               {"weight_decay", g.weight_decay.value_or(o.weight_decay)},
               {"amsgrad", g.amsgrad.value_or(o.amsgrad) ? 1.0 : 0.0}},
              o.master_weights);
  }
  check_groups();
}

void AdamBase::check(const HyperParameters& hyper) const {
  for (const char* name : {"lr", "eps", "weight_decay"}) check_not_negative(hyper, name);
  for (const char* name : {"beta1", "beta2"}) check_below_one(hyper, name);
}

bool AdamBase::needs_buffer(size_t buffer, const HyperParameters& hyper) const {
  return buffer < 2 || hyper("amsgrad") != 0;
}

void AdamBase::update(const HyperParameters& hyper, std::span<const UpdateItem> items) const {
  const AdamNumbers numbers{.lr = hyper("lr"),
                            .beta1 = hyper("beta1"),
                            .beta2 = hyper("beta2"),
                            .eps = hyper("eps"),
                            .weight_decay = hyper("weight_decay"),
                            .amsgrad = hyper("amsgrad") != 0,
                            .decoupled = decoupled_};
  LATHE_DISPATCH(items.front().device, adam_update(items, numbers));
}

Adam::Adam(Tensors params, const AdamOptions& options)
    : Adam(one_group(std::move(params)), options) {}
Adam::Adam(std::vector<AdamGroup> groups, const AdamOptions& options)
    : AdamBase("Adam", std::move(groups), options, false) {}

AdamW::AdamW(Tensors params, const AdamWOptions& options)
    : AdamW(one_group(std::move(params)), options) {}
AdamW::AdamW(std::vector<AdamGroup> groups, const AdamWOptions& options)
    : AdamBase("AdamW", std::move(groups), as_adam(options), true) {}

}  // namespace lathe::optim
