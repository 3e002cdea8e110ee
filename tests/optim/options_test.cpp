// What each optimiser keeps of its options: names, order and values, as state_dict() has them.
#include <doctest/doctest.h>

#include <string>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"

using namespace lathe;
using namespace lathe::optim;

namespace {

/// An optimiser with two groups: the first one has no options of its own.
template <class O, class Options, class Group>
O two_groups(const Options& options, Group own) {
  own.params = {ones({1})};
  return O({Group{.params = {ones({1})}}, own}, options);
}

/// "lr=0.1 momentum=0.9": the hyper-parameters of a group, in order.
std::string options_in(const Optimizer& optimizer, size_t group) {
  const std::string prefix = concat("group.", group, ".");
  std::string text;
  for (const auto& [name, value] : optimizer.state_dict()) {
    if (!name.starts_with(prefix)) continue;
    const std::string option = name.substr(prefix.size());
    if (option == "params" || option == "initial_lr") continue;
    text += concat(text.empty() ? "" : " ", option, "=", value.item<double>());
  }
  return text;
}

}  // namespace

TEST_CASE("options: SGD and RMSprop keep each one, a group its own before the optimiser's") {
  const auto sgd = two_groups<SGD>(
      SGDOptions{.lr = 1, .momentum = 2, .dampening = 3, .weight_decay = 4},
      SGDGroup{.lr = 5, .momentum = 6, .dampening = 0, .weight_decay = 7, .nesterov = true});
  CHECK(options_in(sgd, 0) == "lr=1 momentum=2 dampening=3 weight_decay=4 nesterov=0");
  CHECK(options_in(sgd, 1) == "lr=5 momentum=6 dampening=0 weight_decay=7 nesterov=1");

  const auto rmsprop = two_groups<RMSprop>(
      RMSpropOptions{.lr = 1, .alpha = 0.5, .eps = 2, .weight_decay = 3, .momentum = 4},
      RMSpropGroup{
          .lr = 5, .alpha = 0.25, .eps = 6, .weight_decay = 7, .momentum = 8, .centered = true});
  CHECK(options_in(rmsprop, 0) == "lr=1 alpha=0.5 eps=2 weight_decay=3 momentum=4 centered=0");
  CHECK(options_in(rmsprop, 1) == "lr=5 alpha=0.25 eps=6 weight_decay=7 momentum=8 centered=1");
}

TEST_CASE("options: Adam and AdamW keep each one, both betas apart") {
  const std::string all = "lr=1 beta1=0.5 beta2=0.25 eps=2 weight_decay=3 amsgrad=1";
  const std::string own = "lr=4 beta1=0.75 beta2=0.125 eps=5 weight_decay=6 amsgrad=0";
  const AdamGroup group{
      .lr = 4, .betas = Betas{0.75, 0.125}, .eps = 5, .weight_decay = 6, .amsgrad = false};
  const auto adam = two_groups<Adam>(
      AdamOptions{.lr = 1, .betas = {0.5, 0.25}, .eps = 2, .weight_decay = 3, .amsgrad = true},
      group);
  CHECK(options_in(adam, 0) == all);
  CHECK(options_in(adam, 1) == own);

  const auto adamw = two_groups<AdamW>(
      AdamWOptions{.lr = 1, .betas = {0.5, 0.25}, .eps = 2, .weight_decay = 3, .amsgrad = true},
      group);
  CHECK(options_in(adamw, 0) == all);
  CHECK(options_in(adamw, 1) == own);
}

TEST_CASE("options: LARS, LAMB and NovoGrad keep each one") {
  const auto lars = two_groups<LARS>(
      LARSOptions{.lr = 1, .momentum = 2, .weight_decay = 3, .trust_coefficient = 4},
      LARSGroup{.lr = 5, .momentum = 6, .weight_decay = 7, .trust_coefficient = 8, .adapt = false});
  CHECK(options_in(lars, 0) == "lr=1 momentum=2 weight_decay=3 trust_coefficient=4 adapt=1");
  CHECK(options_in(lars, 1) == "lr=5 momentum=6 weight_decay=7 trust_coefficient=8 adapt=0");

  const auto lamb = two_groups<LAMB>(
      LAMBOptions{
          .lr = 1, .betas = {0.5, 0.25}, .eps = 2, .weight_decay = 3, .bias_correction = false},
      LAMBGroup{.lr = 4, .eps = 5, .weight_decay = 6, .bias_correction = true, .adapt = false});
  CHECK(options_in(lamb, 0) ==
        "lr=1 beta1=0.5 beta2=0.25 eps=2 weight_decay=3 bias_correction=0 adapt=1");
  CHECK(options_in(lamb, 1) ==
        "lr=4 beta1=0.5 beta2=0.25 eps=5 weight_decay=6 bias_correction=1 adapt=0");

  const auto novograd = two_groups<NovoGrad>(
      NovoGradOptions{.lr = 1, .betas = {0.5, 0.25}, .eps = 2, .weight_decay = 3},
      NovoGradGroup{.lr = 4, .betas = Betas{0.75, 0.125}, .grad_averaging = true});
  CHECK(options_in(novograd, 0) ==
        "lr=1 beta1=0.5 beta2=0.25 eps=2 weight_decay=3 grad_averaging=0");
  CHECK(options_in(novograd, 1) ==
        "lr=4 beta1=0.75 beta2=0.125 eps=2 weight_decay=3 grad_averaging=1");
}

TEST_CASE("options: a parameter has the buffers that its options need, and no others") {
  const auto state_of = []<class O>(O optimizer) {
    const Tensor p = optimizer.params().front();
    p.set_grad(ones(p.shape()));
    optimizer.step();
    std::string text;
    for (const auto& [name, value] : optimizer.state_dict()) {
      if (name.starts_with("state.0.")) text += name.substr(7);
    }
    return text;
  };
  const Tensors p = {ones({1})};
  CHECK(state_of(SGD(p)) == ".step");
  CHECK(state_of(SGD(p, {.momentum = 0.5})) == ".step.momentum_buffer");
  CHECK(state_of(Adam(p)) == ".step.exp_avg.exp_avg_sq");
  CHECK(state_of(AdamW(p, {.amsgrad = true})) == ".step.exp_avg.exp_avg_sq.max_exp_avg_sq");
  CHECK(state_of(RMSprop(p)) == ".step.square_avg");
  CHECK(state_of(RMSprop(p, {.momentum = 0.5})) == ".step.square_avg.momentum_buffer");
  CHECK(state_of(RMSprop(p, {.centered = true})) == ".step.square_avg.grad_avg");
  CHECK(state_of(LARS(p, {.momentum = 0})) == ".step.momentum_buffer");
  CHECK(state_of(LAMB(p)) == ".step.exp_avg.exp_avg_sq");
  CHECK(state_of(Adafactor(p)) == ".step.variance");
  CHECK(state_of(Adafactor({ones({1, 1})})) == ".step.row_var.col_var");
  CHECK(state_of(NovoGrad(p)) == ".step.exp_avg.exp_avg_sq");
}
