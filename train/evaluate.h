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
  // For batches that are launched as CUDA graphs where these take them. The graphs add to `sums`.
  // Both stay from one evaluation to the next.
  cuda::StepGraphs* graphs = nullptr;
  Tally* sums = nullptr;
  std::function<bool()> stop = {};  // asked after each batch: true ends the pass
  // Called with the output and the target of each batch, in order.
  std::function<void(const Result&)> batch = {};
  std::function<void(const ProgressState&)> progress = {};  // called after each batch
};

/// One pass in evaluation mode without gradients; afterwards the model's mode is as before, that of
/// frozen batch norms too. What a sample contributes does not depend on the batch size.
///   tally  what is added up; what it holds is cleared
/// throws: what the loader, the loss function and the metrics throw.
LATHE_API Evaluation evaluate(nn::Module& model, Batches& batches, const LossFunction& loss,
                              Tally tally, const EvaluateOptions& options = {});

}  // namespace lathe::train
