// The saved state of everything in optim/ (saved_state.h).
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/lbfgs.h"
#include "lathe/optim/lookahead.h"
#include "lathe/optim/optimizer_names.h"
#include "lathe/optim/reduce_on_plateau.h"
#include "lathe/optim/scheduler.h"
#include "lathe/optim/scheduler_chain.h"
#include "lathe/tests/optim/loss_scaling.h"
#include "saved_state.h"

namespace lathe {
namespace {

using namespace test;
using namespace optim;

/// Gradients that are the same in every run. Those of every second parameter grow from step to
/// step, the others shrink: each side of a maximum decides somewhere.
void set_grads(const Tensors& params, int n) {
  for (size_t i = 0; i < params.size(); ++i) {
    Generator generator(static_cast<uint64_t>(100 * n) + i);
    const Tensor g = randn(params[i].shape(), {.dtype = kF64}, &generator);
    params[i].set_grad((g * std::pow(i % 2 == 0 ? 0.2 : 2, n)).to(params[i].dtype()));
  }
}

std::vector<double> values(const Tensors& tensors) {
  std::vector<double> out;
  for (const Tensor& t : tensors) {
    const std::vector<double> v = t.to_vector<double>();
    out.insert(out.end(), v.begin(), v.end());
  }
  return out;
}

Tensors two_params() {
  return {param(full({3, 2}, 0.5, {.dtype = kF64}), kCPU),
          param(full({2, 5}, -2, {.dtype = kF64}), kCPU)};
}

/// The optimiser of that name with every number that is 0 by default at 1/8, and every switch as it
/// is by default or turned. Two groups of two parameters.
template <class Options, class Group>
std::pair<Options, std::vector<Group>> options_and_groups(bool turned) {
  Options options;
  visit_options(
      options,
      [&]<class T>(std::string_view name, T& option, const auto&, Range range) {
        if (range == Range::kSwitch && turned && name != "use_sgd")
          option = static_cast<T>(!option);
        if (range != Range::kSwitch && option == 0 && !(turned && name == "dampening"))
          option = static_cast<T>(0.125);
      },
      Group());
  return {options, {Group{.params = two_params()}, Group{.params = two_params(), .lr = 0.3}}};
}

TEST_CASE("saved state: optimisers") {
  struct Silent {
    std::string_view name;
    std::vector<std::string> plain, turned;  // besides initial_lr
  };
  // Maxima (amsgrad, adamax) are silent where the other side is larger. Of a sum, lion's step sees
  // only the sign. adafactor: eps2 is silent below the parameter's root mean square, moments are
  // below eps1².
  const std::vector<std::string> partly[] = {{"adam turned", "exp_avg_sq", "max_exp_avg_sq"},
                                             {"adamw turned", "exp_avg_sq", "max_exp_avg_sq"},
                                             {"adamax", "exp_inf"},
                                             {"adamax turned", "exp_inf"},
                                             {"lion", "exp_avg", "beta1"},
                                             {"lion turned", "exp_avg", "beta1"},
                                             {"adafactor", "eps2", "row_var"},
                                             {"adafactor turned", "eps2", "row_var"}};
  // Steps are silent where the formula has none. lars: without adapt there is no ratio. adagrad:
  // the sums have begun. muon: some options belong to use_adamw, the others to its absence, and f64
  // ignores ns_bf16. Only schedules read initial_lr.
  const std::vector<std::string> step = {"step"};
  const std::vector<Silent> silent = {
      {"sgd", step, step},
      {"rmsprop", step, step},
      {"lars", step, {"step", "trust_coefficient"}},
      {"lamb", {}, step},
      {"novograd", step, step},
      {"adagrad", {"initial_accumulator_value"}, {"initial_accumulator_value"}},
      {"adadelta", step, step},
      {"lion", step, step},
      {"muon",
       {"step", "beta1", "beta2", "eps", "ns_bf16"},
       {"momentum", "nesterov", "ns_steps", "ns_bf16", "match_rms_adamw", "normalize"}}};
  for (size_t at = 0; at < kOptimizerNames.size();) {
    const size_t comma = std::min(kOptimizerNames.find(", ", at), kOptimizerNames.size());
    const std::string_view name = kOptimizerNames.substr(at, comma - at);
    at = comma + 2;
    for (const bool turned : {false, true}) {
      SavedCase c{.name = concat(name, turned ? " turned" : ""),
                  .make =
                      [=] {
                        return with_optimizer(name, [&]<class O, class Options, class Group>() {
                          auto [options, groups] = options_and_groups<Options, Group>(turned);
                          const auto o = std::make_shared<O>(std::move(groups), options);
                          const Tensors params = o->params();
                          return saved(
                              o,
                              [=](int n) {
                                set_grads(params, n);
                                o->step();
                                return values(params);
                              },
                              params);
                        });
                      },
                  .silent = {"initial_lr"},
                  .before = 6};
      for (const Silent& s : silent) {
        if (s.name != name) continue;
        const auto& more = turned ? s.turned : s.plain;
        c.silent.insert(c.silent.end(), more.begin(), more.end());
      }
      for (const std::vector<std::string>& p : partly) {
        if (p.front() == c.name) c.partly.assign(p.begin() + 1, p.end());
      }
      check_saved(c);
    }
  }
}

template <class L, class... Options>
SavedCase schedule(const std::string& name, std::vector<std::string> silent,
                   const Options&... options) {
  return {name,
          [=] {
            const auto optimizer = std::make_shared<SGD>(two_params(), SGDOptions{.lr = 0.4});
            const auto s = std::make_shared<L>(*optimizer, options...);
            return saved(s, [s, optimizer](int n) {
              const double before = optimizer->lr();
              s->observe(n == 0 ? 5 : n == 1 ? 1 : 1.02);
              s->step();
              return std::vector{before, optimizer->lr()};
            });
          },
          silent,
          {},
          {},
          {"best", "bad_metrics"}};  // they are compared; the same answer shows nowhere
}

/// A schedule over others, which it keeps alive.
template <class Whole, class... Rest>
struct Chain {
  explicit Chain(Optimizer& optimizer, const Rest&... rest)
      : warmup(optimizer, {.start_factor = 0.1, .total_iters = 5}),
        plateau(optimizer, {.factor = 0.5, .patience = 1, .cooldown = 1}),
        other(optimizer, {.factor = 0.25, .patience = 1, .cooldown = 1}),
        whole(optimizer, std::vector<LRScheduler*>{&warmup, &plateau, &other}, rest...) {}
  void observe(double metric) { whole.observe(metric); }
  void step() { whole.step(); }
  StateDict state_dict() const { return whole.state_dict(); }
  void load_state_dict(const StateDict& state) { whole.load_state_dict(state); }

  LinearLR warmup;
  ReduceLROnPlateau plateau, other;
  Whole whole;
};

TEST_CASE("saved state: schedules") {
  check_saved(schedule<StepLR>("StepLR", {}, StepLROptions{.step_size = 2}));
  check_saved(schedule<MultiStepLR>("MultiStepLR", {}, MultiStepLROptions{.milestones = {1, 5}}));
  // Rates that are multiplied need no epoch.
  check_saved(
      schedule<ExponentialLR>("ExponentialLR", {"last_epoch"}, ExponentialLROptions{.gamma = 0.5}));
  check_saved(
      schedule<CosineAnnealingLR>("CosineAnnealingLR", {}, CosineAnnealingLROptions{.t_max = 7}));
  check_saved(schedule<CosineAnnealingWarmRestarts>("CosineAnnealingWarmRestarts", {},
                                                    CosineAnnealingWarmRestartsOptions{.t_0 = 3}));
  check_saved(schedule<LinearLR>("LinearLR", {}, LinearLROptions{.total_iters = 6}));
  check_saved(schedule<PolynomialLR>("PolynomialLR", {}, PolynomialLROptions{.total_iters = 8}));
  check_saved(schedule<OneCycleLR>("OneCycleLR", {}, OneCycleLROptions{.total_steps = 8}));
  const std::function<double(int64_t)> third = [](int64_t epoch) { return epoch * 3.0; };
  check_saved(schedule<LambdaLR>("LambdaLR", {}, third));
  // Metrics, and not the epoch, decide on the rate.
  check_saved(schedule<ReduceLROnPlateau>("ReduceLROnPlateau", {"last_epoch"},
                                          ReduceLROnPlateauOptions{.patience = 1, .cooldown = 1}));
  // Part 2 begins at epoch 5 with an improvement, before which nothing was counted.
  SavedCase sequence = schedule<Chain<SequentialLR, std::vector<int64_t>>>(
      "SequentialLR", {"part.2.bad_metrics", "part.2.cooldown_left"}, std::vector<int64_t>{1, 5});
  sequence.after = 6;
  check_saved(sequence);
  // LinearLR's rate is a formula of the epoch.
  check_saved(schedule<Chain<ChainedLR>>("ChainedLR", {"part.0.group.0.lr"}));
}

TEST_CASE("saved state: GradScaler") {
  check_saved({"GradScaler",
               [] {
                 const Tensors params = {param(ones({2}), kCPU)};
                 const auto sgd = std::make_shared<SGD>(params, SGDOptions{.lr = 0.1});
                 const auto s = std::make_shared<GradScaler>(GradScalerOptions{
                     .init_scale = 512, .growth_factor = 4, .growth_interval = 2});
                 return saved(
                     s,
                     [=](int n) {
                       begin(*s, kCPU);
                       params[0].set_grad(full({2}, n == 4 ? kInfinity : 1.0 + n));
                       s->step(*sgd);
                       s->update();
                       std::vector<double> shown = values(params);
                       shown.push_back(s->get_scale());
                       return shown;
                     },
                     params);
               },
               {},
               {},
               {},
               {"growth_tracker"}});  // compared with growth_interval
}

TEST_CASE("saved state: EMA") {
  const auto ema = [](const std::string& name, const EMAOptions& options) {
    check_saved({name, [=] {
                   const auto model = std::make_shared<nn::Sequential>();
                   model->add<nn::Linear>(3, 2);
                   model->add<nn::BatchNorm1d>(2);
                   const auto e = std::make_shared<EMA>(*model, options);
                   return saved(e, [=](int n) {
                     for (const auto& entry : model->state_dict()) entry.second.fill_(n + 1);
                     e->update();
                     std::vector<double> shown = {static_cast<double>(e->num_updates())};
                     for (const auto& entry : e->module_state())
                       for (const double v : entry.second.to_vector<double>()) shown.push_back(v);
                     return shown;
                   });
                 }});
  };
  ema("EMA", {.decay = 0.9});
  ema("EMA, warm-up", {.decay = 0.9, .warm_up = true});
  ema("EMA, SWA", {.swa = true, .average_buffers = true});
}

TEST_CASE("saved state: Lookahead") {
  check_saved({.name = "Lookahead",
               .make =
                   [] {
                     const Tensors params = two_params();
                     const auto sgd = std::make_shared<SGD>(params, SGDOptions{.lr = 0.1});
                     const auto l = std::make_shared<Lookahead>(*sgd, LookaheadOptions{.k = 3});
                     return saved(
                         l,
                         [=](int n) {
                           set_grads(params, n);
                           l->step();
                           (void)sgd;
                           return values(params);
                         },
                         params);
                   },
               .before = 4});
}

TEST_CASE("saved state: LBFGS") {
  for (const bool strong_wolfe : {false, true}) {
    check_saved({concat("LBFGS, strong_wolfe ", strong_wolfe),
                 [=] {
                   const Tensors params = two_params();
                   const auto o =
                       std::make_shared<LBFGS>(params, LBFGSOptions{.lr = 1,
                                                                    .max_iter = 3,
                                                                    .history_size = 8,
                                                                    .strong_wolfe = strong_wolfe});
                   const auto closure = [=] {
                     o->zero_grad();
                     const Tensor &a = params[0], &b = params[1];
                     const Tensor loss = sum(a * a * a * a + a) + sum(b * b * (b + 5)) * sum(a * a);
                     loss.backward();
                     return loss;
                   };
                   return saved(
                       o,
                       [=](int) {
                         o->step(closure);
                         std::vector<double> shown = values(params);
                         shown.push_back(static_cast<double>(o->evaluations()));
                         shown.push_back(static_cast<double>(o->iterations()));
                         return shown;
                       },
                       params);
                 },
                 // No gradient is small enough to end a step, which sets the others again.
                 {"tolerance_grad", "loss", "curvature"},
                 {},
                 {},
                 // A change is compared with the first; pairs are fewer than the second.
                 {"tolerance_change", "history_size"},
                 2});
  }
}

}  // namespace
}  // namespace lathe
