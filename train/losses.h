// Loss functions of common tasks, for train::Step. Your own loss function is a lambda that returns
// a Result.
#pragma once

#include "lathe/core/config.h"
#include "lathe/nn/module.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// The loss of a classification: cross_entropy(model(x), y) for a batch {x, y}. The labels y are
/// class numbers or probabilities. Result::output has the model's scores in f32. Result::target has
/// the class numbers. If y holds probabilities, Result::target has the most probable class of each
/// sample. The model must outlive the loss function.
LATHE_API LossFunction classification(nn::Module& model, const CrossEntropyOptions& options = {});

}  // namespace lathe::train
