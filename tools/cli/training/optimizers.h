// The optimisers that --optimizer names, over a model's parameters.
#pragma once

#include <memory>

#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The peak learning rate of a training: --lr, with --lr-scale-batch times the images of a step
/// (batch size times --accumulate) over 128. Settings are definite (recipe.h).
/// ref: linear scaling: Goyal et al. 2017 (arXiv:1706.02677).
double peak_lr(const Settings& settings);

/// As --optimizer, peak_lr(), --momentum, --weight-decay, … say. Norms and biases are the second of
/// two groups, without decay, with --no-decay-norm, and always for lars and lamb, which then take
/// the learning rate there as it is (trust ratio 1).
/// throws: UsageError for values that do not fit each other.
std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, nn::Module& model);

}  // namespace lathe::cli
