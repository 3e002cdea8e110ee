// Evaluation of a model on a data set, for `lathe eval` and `lathe report`.
#pragma once

#include <cstdint>
#include <functional>

#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/train/evaluate.h"
#include "lathe/train/progress.h"

namespace lathe::cli {

/// A function that gets the scores and the labels of each batch, in order.
using BatchObserver = std::function<void(const Tensor& scores, const Tensor& labels)>;

/// Makes one pass over `input` in evaluation mode, and shows its progress. If `classes` is above 0,
/// it also fills the confusion matrix.
train::Evaluation evaluate(nn::Module& model, Input& input, const Settings& settings,
                           int64_t classes, train::Progress& progress,
                           const BatchObserver& observer = {});

/// The loss of evaluations: cross entropy of the model's scores in f32, computed as --layout says.
train::LossFunction evaluation_loss_of(nn::Module& model, const Settings& settings);

}  // namespace lathe::cli
