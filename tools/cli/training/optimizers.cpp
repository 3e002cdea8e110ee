// make_optimizer(): from settings to an optimiser with one or two parameter groups.
#include "lathe/tools/cli/training/optimizers.h"

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/optim/optimizer_names.h"
#include "lathe/optim/param_groups.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/fine_tuning.h"

namespace lathe::cli {
namespace {

constexpr double kReferenceBatch = 128;  // images of a step that --lr is meant for

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
  options.lr = peak_lr(s);
  return options;
}

// What --lr-scale-batch multiplies learning rates by.
double rate_scale(const Settings& settings) {
  if (!settings.lr_scale_batch) return 1;
  return static_cast<double>(*settings.batch_size * settings.accumulate) / kReferenceBatch;
}

// With `apart`, norms and biases are a group of their own without decay; `rest` has the other
// options of that group. With --head-lr, so are those of the head.
template <class Optimizer, class Options, class Group>
std::unique_ptr<optim::Optimizer> make(const Settings& s, nn::Module& model, bool apart,
                                       Group rest) {
  const auto options = options_of<Options>(s);
  if (!apart && !s.head_lr) return std::make_unique<Optimizer>(model.parameters(), options);
  const optim::DecaySplit all =
      apart ? optim::split_by_decay(model) : optim::DecaySplit{model.parameters(), {}};
  rest.weight_decay = 0.0;
  std::vector<Group> groups;
  const auto add = [&](const Tensors& params, Group group, std::optional<double> lr) {
    if (params.empty()) return;
    group.params = params;
    group.lr = lr;
    groups.push_back(std::move(group));
  };
  if (!s.head_lr) {
    add(all.decay, {}, {});
    add(all.no_decay, rest, {});
  } else {
    const auto [decay, head_decay] = split_by_head(model, all.decay);
    const auto [no_decay, head_no_decay] = split_by_head(model, all.no_decay);
    const double head_lr = *s.head_lr * rate_scale(s);
    add(decay, {}, {});
    add(no_decay, rest, {});
    add(head_decay, {}, head_lr);
    add(head_no_decay, rest, head_lr);
  }
  return std::make_unique<Optimizer>(std::move(groups), options);
}

}  // namespace

double peak_lr(const Settings& settings) { return *settings.lr * rate_scale(settings); }

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& s, nn::Module& model) try {
  return optim::with_optimizer(s.optimizer, [&]<class Optimizer, class Options, class Group>() {
    Group rest;
    constexpr bool kAdapts = requires { rest.adapt; };  // lars, lamb
    if constexpr (kAdapts) rest.adapt = false;
    return make<Optimizer, Options, Group>(s, model, s.no_decay_norm || kAdapts, std::move(rest));
  });
} catch (const ValueError& e) {
  throw UsageError(e.message());
}

}  // namespace lathe::cli
