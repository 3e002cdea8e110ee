// The optimisers that --optimizer names, over a model's parameters.
#pragma once

#include <memory>

#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The peak learning rate of a training: --lr. With --lr-scale-batch it is multiplied by the images
/// of a step (batch size times --accumulate) divided by 128. All settings must be chosen
/// (settings/defaults.h).
/// ref: linear scaling: Goyal et al. 2017 (arXiv:1706.02677).
double peak_lr(const Settings& settings);

/// Makes the optimiser of --optimizer with peak_lr(). Each of its options that has a flag, such as
/// --momentum, gets the flag's value.
///   - With --no-decay-norm, and always for lars and lamb, norms and biases are a second group
///     without decay. For lars and lamb that group's trust ratio is 1.
///   - muon has its hidden matrices (optim::split_for_muon()) as the first group. AdamW updates the
///     others, with the same rate and decay.
///   - With --muon-rest sgd, SGD with a momentum of 0.85 updates the others. The matrices are
///     normalised, with 3 steps of newton_schulz().
///   - With --bias-lr parameters of at most one dimension, and with --head-lr the parameters of the
///     head (training/fine_tuning.h), are separate groups, which come last, the head's after the
///     biases'. Their rate is scaled like peak_lr(). With --muon-rest sgd their decay is divided by
///     the ratio of their rate to peak_lr().
/// throws: UsageError for values that do not fit together.
std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, nn::Module& model);

}  // namespace lathe::cli
