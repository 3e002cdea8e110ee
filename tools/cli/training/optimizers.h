// The optimisers that --optimizer names, over a model's parameters.
#pragma once

#include <memory>

#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The peak learning rate of a training: --lr; with --lr-scale-batch times the images of a step
/// (batch size times --accumulate) divided by 128. All settings must be definite
/// (settings/defaults.h).
/// ref: linear scaling: Goyal et al. 2017 (arXiv:1706.02677).
double peak_lr(const Settings& settings);

/// The optimiser of --optimizer with peak_lr(). Every other option that has a flag of its name,
/// such as --momentum, has the flag's value. With --no-decay-norm, and always for lars and lamb,
/// norms and biases are a second group without decay; for lars and lamb that group takes the
/// learning rate as it is (trust ratio 1).
/// With --head-lr the parameters of the head (training/fine_tuning.h) are groups of their own. They
/// come last and have that rate, scaled as peak_lr().
/// throws: UsageError for values that do not fit together.
std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, nn::Module& model);

}  // namespace lathe::cli
