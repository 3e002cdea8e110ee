// Evaluation of a model: one pass over batches without gradients.
#pragma once

#include <functional>
#include <string>

#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/config.h"
#include "lathe/nn/module.h"
#include "lathe/train/batches.h"
#include "lathe/train/observer.h"
#include "lathe/train/step.h"
#include "lathe/train/tally.h"

namespace lathe::train {

struct Evaluation {
  Tally tally;
  double seconds = 0;
  bool complete = true;  // false: stopped before the end
};

struct EvaluateOptions {
  std::string amp = "off";  // the forward pass runs under Autocast, as in StepOptions
  // If set: launches batches as CUDA graphs if possible. The graphs add the metrics to `sums`. Pass
  // the same two objects to each evaluation.
  cuda::StepGraphs* graphs = nullptr;
  Tally* sums = nullptr;
  std::function<bool()> stop = {};  // asked after each batch: true ends the pass
  // Called with the result of each batch, in order.
  std::function<void(const Result&)> on_batch = {};
  std::function<void(const ProgressState&)> progress = {};  // called after each batch
};

/// Makes one pass over the batches in evaluation mode, without gradients. Afterwards each module,
/// also a frozen batch norm, is in its old mode. Each sample has the same weight, whatever the
/// batch sizes.
///   tally  the metrics to add up; evaluate() first clears their sums
/// throws: ValueError for a batch without samples or a loss that is not 0-d; DataError for a loader
/// with fewer batches than its size(); what the loader, the loss function and the metrics throw.
LATHE_API Evaluation evaluate(nn::Module& model, Batches& batches, const LossFunction& loss,
                              Tally tally, const EvaluateOptions& options = {});

}  // namespace lathe::train
