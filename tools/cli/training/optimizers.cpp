// make_optimizer(): from settings to an optimiser with one or two parameter groups.
#include "lathe/tools/cli/training/optimizers.h"

#include <vector>

#include "lathe/core/error.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/param_groups.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

constexpr double kReferenceBatch = 128;  // images of a step that --lr is meant for

template <class Options>
Options common_options(const Settings& s) {
  Options options;
  options.lr = peak_lr(s);
  options.weight_decay = *s.weight_decay;
  return options;
}

// With `apart`, norms and biases are a group of their own without decay; `rest` has the other
// options of that group.
template <class Optimizer, class Group, class Options>
std::unique_ptr<optim::Optimizer> make_grouped(bool apart, nn::Module& model,
                                               const Options& options, Group rest = {}) {
  if (!apart) return std::make_unique<Optimizer>(model.parameters(), options);
  auto [decay, no_decay] = optim::split_by_decay(model);
  std::vector<Group> groups;
  if (!decay.empty()) groups.push_back({.params = std::move(decay)});
  if (!no_decay.empty()) {
    rest.params = std::move(no_decay);
    rest.weight_decay = 0.0;
    groups.push_back(std::move(rest));
  }
  return std::make_unique<Optimizer>(std::move(groups), options);
}

}  // namespace

double peak_lr(const Settings& settings) {
  if (!settings.lr_scale_batch) return *settings.lr;
  const int64_t images = *settings.batch_size * settings.accumulate;
  return *settings.lr * static_cast<double>(images) / kReferenceBatch;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& s, nn::Module& model) try {
  const bool apart = s.no_decay_norm;
  if (s.optimizer == "adam")
    return make_grouped<optim::Adam, optim::AdamGroup>(apart, model,
                                                       common_options<optim::AdamOptions>(s));
  if (s.optimizer == "adamw")
    return make_grouped<optim::AdamW, optim::AdamGroup>(apart, model,
                                                        common_options<optim::AdamWOptions>(s));
  if (s.optimizer == "rmsprop") {
    auto options = common_options<optim::RMSpropOptions>(s);
    options.momentum = s.momentum;
    return make_grouped<optim::RMSprop, optim::RMSpropGroup>(apart, model, options);
  }
  if (s.optimizer == "lars") {
    auto options = common_options<optim::LARSOptions>(s);
    options.momentum = s.momentum;
    options.trust_coefficient = s.trust_coefficient;
    return make_grouped<optim::LARS, optim::LARSGroup>(true, model, options, {.adapt = false});
  }
  if (s.optimizer == "lamb")
    return make_grouped<optim::LAMB, optim::LAMBGroup>(
        true, model, common_options<optim::LAMBOptions>(s), {.adapt = false});
  if (s.optimizer == "novograd")
    return make_grouped<optim::NovoGrad, optim::NovoGradGroup>(
        apart, model, common_options<optim::NovoGradOptions>(s));
  auto options = common_options<optim::SGDOptions>(s);
  options.momentum = s.momentum;
  options.nesterov = s.nesterov;
  return make_grouped<optim::SGD, optim::SGDGroup>(apart, model, options);
} catch (const ValueError& e) {
  throw UsageError(e.message());
}

}  // namespace lathe::cli
