// Evaluation of a model on a data set, for `lathe eval` and `lathe report`.
#pragma once

#include <functional>

#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/saved_run.h"
#include "lathe/train/evaluate.h"
#include "lathe/train/progress.h"

namespace lathe::cli {

/// A function that gets the scores and the labels of each batch, in order.
using BatchObserver = std::function<void(const Tensor& scores, const Tensor& labels)>;

/// Makes one pass over `input` in evaluation mode with the run's model, and shows its progress. The
/// scores of a model that gives probabilities are their logarithms.
train::Evaluation evaluate(const SavedRun& run, Input& input, train::Progress& progress,
                           const BatchObserver& observer = {});

/// The loss of a training's evaluations: cross entropy of the model's scores in f32, computed as
/// --layout says and averaged over views as --tta says.
train::LossFunction evaluation_loss_of(nn::Module& model, const Settings& settings);

}  // namespace lathe::cli
