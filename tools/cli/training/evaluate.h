// Evaluation of a model on a data set, for training and `lathe eval`.
#pragma once

#include <functional>

#include "lathe/core/step_graphs.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/progress.h"
#include "lathe/tools/cli/training/tally.h"

namespace lathe::cli {

struct Evaluation {
  Tally tally;
  double seconds = 0;
  bool complete = true;  // false: a signal asked to stop
};

/// For evaluations whose batches are launched as CUDA graphs. Both stay from one to the next: the
/// graphs add to these sums.
struct EvaluationGraphs {
  cuda::StepGraphs& graphs;
  Tally& sums;
};

/// Sees the scores and the labels of each batch, in order.
using BatchObserver = std::function<void(const Tensor& scores, const Tensor& labels)>;

/// One pass in evaluation mode without gradients; afterwards the model's mode is as before, that of
/// frozen batch norms too, so call Frozen::hold() again. What a sample contributes depends neither
/// on the batch size nor on the workers. With `graphs`, and 0 classes, batches are launched as CUDA
/// graphs where these take them.
Evaluation evaluate(nn::Module& model, Input& input, const Settings& settings, int64_t classes,
                    Progress& progress, const BatchObserver& observer = {},
                    const EvaluationGraphs* graphs = nullptr);

}  // namespace lathe::cli
