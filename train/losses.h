// Loss functions of common tasks, for train::Step. One's own is a lambda that returns a Result.
#pragma once

#include "lathe/core/config.h"
#include "lathe/nn/module.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// Classification: cross_entropy(model(x), y) of a batch {x, y}, with the labels y as integers or
/// as probabilities. The output is the model's scores in f32. The target is the labels, or the
/// most probable class of each sample.
/// The model must outlive the function.
LATHE_API LossFunction classification(nn::Module& model, const CrossEntropyOptions& options = {});

}  // namespace lathe::train
