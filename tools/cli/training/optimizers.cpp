// make_optimizer(): from settings to an optimiser with one or two parameter groups.
#include "lathe/tools/cli/training/optimizers.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/optim/optimizer_names.h"
#include "lathe/optim/param_groups.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/training/fine_tuning.h"

namespace lathe::cli {
namespace {

constexpr double kReferenceBatch = 128;  // images of a step that --lr is meant for

// What --muon-rest sgd adds to the settings, from Jordan's airbench94 (nn/cifarnet.h).
constexpr int64_t kSchulzSteps = 3;
constexpr double kRestMomentum = 0.85;

// The value of the setting of that name, if there is one.
template <class T>
std::optional<T> value_of(const Settings& s, std::string_view name) {
  const Setting* const setting = find_setting(name);
  if (setting == nullptr) return {};
  if (const auto* const at = std::get_if<T Settings::*>(&setting->target)) return s.**at;
  return s.*std::get<std::optional<T> Settings::*>(setting->target);
}

// The library's options, but those that have a flag of their name have its value.
template <class Options>
Options options_of(const Settings& s) {
  Options options;
  visit_options(options, [&]<class T>(std::string_view name, T& option, const auto&, optim::Range) {
    option = value_of<T>(s, name).value_or(option);
  });
  if constexpr (requires { options.momentum; })
    options.momentum = s.momentum.value_or(usual_momentum(s.optimizer));
  options.lr = peak_lr(s);
  return options;
}

// What --lr-scale-batch multiplies learning rates by.
double rate_scale(const Settings& settings) {
  if (!settings.lr_scale_batch) return 1;
  return static_cast<double>(*settings.batch_size * settings.accumulate) / kReferenceBatch;
}

// The parameters in groups. With --no-decay-norm, and for lars and lamb, norms and biases are
// apart, without decay. For muon so is what is no hidden matrix.
template <class Group>
std::vector<Group> groups_of(const Settings& s, nn::Module& model) {
  constexpr bool kAdapts = requires(Group group) { group.adapt; };        // lars, lamb
  constexpr bool kMatrices = requires(Group group) { group.use_adamw; };  // muon
  std::vector<Group> groups;
  const auto add = [&](Tensors params, Group group) {
    if (params.empty()) return;
    group.params = std::move(params);
    groups.push_back(std::move(group));
  };
  Tensors params = model.parameters(), apart;
  if (s.no_decay_norm || kAdapts)
    std::tie(params, apart) = [&] {
      optim::DecaySplit split = optim::split_by_decay(model);
      return std::pair(std::move(split.decay), std::move(split.no_decay));
    }();
  Group usual, rest;
  if constexpr (kAdapts) rest.adapt = false;
  if constexpr (kMatrices) {
    const Tensors hidden = optim::split_for_muon(model).hidden;
    std::erase_if(params, [&](const Tensor& p) {
      return std::ranges::any_of(hidden, [&](const Tensor& h) { return h.is_same(p); });
    });
    add(hidden, {});
    for (Group* group : {&usual, &rest}) {
      (s.muon_rest == "sgd" ? group->use_sgd : group->use_adamw) = true;
      if (s.muon_rest == "sgd") group->momentum = kRestMomentum;
    }
  }
  rest.weight_decay = 0.0;
  add(std::move(params), usual);
  add(std::move(apart), rest);
  return groups;
}

// The same groups; what split() returns as the second part of a group becomes a group of its own,
// at the end, with this learning rate.
template <class Group, class Split>
std::vector<Group> with_rate_apart(std::vector<Group> groups, double lr, Split split) {
  std::vector<Group> bodies, aparts;
  for (Group& group : groups) {
    auto [body, apart] = split(group.params);
    group.params = std::move(body);
    if (!group.params.empty()) bodies.push_back(group);
    group.params = std::move(apart);
    group.lr = lr;
    if (!group.params.empty()) aparts.push_back(group);
  }
  bodies.insert(bodies.end(), aparts.begin(), aparts.end());
  return bodies;
}

// The groups, with --bias-lr and --head-lr further divided.
template <class Group>
std::vector<Group> with_own_rates(const Settings& s, const nn::Module& model,
                                  std::vector<Group> groups) {
  if (s.bias_lr)
    groups =
        with_rate_apart(std::move(groups), *s.bias_lr * rate_scale(s), [](const Tensors& params) {
          std::pair<Tensors, Tensors> out;
          for (const Tensor& p : params) (p.ndim() > 1 ? out.first : out.second).push_back(p);
          return out;
        });
  if (s.head_lr)
    groups = with_rate_apart(std::move(groups), *s.head_lr * rate_scale(s),
                             [&](const Tensors& params) { return split_by_head(model, params); });
  if constexpr (requires(Group group) { group.use_sgd; }) {
    // Each step of SGD takes the share lr · weight_decay of --lr, whatever the group's own rate is.
    for (Group& group : groups) {
      if (group.use_sgd.value_or(false) && group.lr)
        group.weight_decay = group.weight_decay.value_or(*s.weight_decay) * peak_lr(s) / *group.lr;
    }
  }
  return groups;
}

}  // namespace

double peak_lr(const Settings& settings) { return *settings.lr * rate_scale(settings); }

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& s, nn::Module& model) try {
  return optim::with_optimizer(
      s.optimizer,
      [&]<class Optimizer, class Options, class Group>() -> std::unique_ptr<optim::Optimizer> {
        auto options = options_of<Options>(s);
        // With match_rms_adamw one learning rate is for muon's matrices and for AdamW.
        if constexpr (requires { options.use_adamw; }) {
          options.nesterov = true;
          (s.muon_rest == "sgd" ? options.normalize : options.match_rms_adamw) = true;
          if (s.muon_rest == "sgd") options.ns_steps = kSchulzSteps;
        }
        return std::make_unique<Optimizer>(with_own_rates(s, model, groups_of<Group>(s, model)),
                                           options);
      });
} catch (const ValueError& e) {
  throw UsageError(e.message());
}

}  // namespace lathe::cli
