// evaluate(): the loop over the test batches, with the progress line.
#include "lathe/tools/cli/training/evaluate.h"

#include <chrono>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/seconds_since.h"
#include "lathe/ops/cross_entropy.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

namespace {
constexpr int64_t kBatchesBetweenReads = 20;  // of a GPU's sums, for the progress line
}

Evaluation evaluate(nn::Module& model, Input& input, const Settings& settings, int64_t classes,
                    Progress& progress, const BatchObserver& observer,
                    const EvaluationGraphs* graphs) {
  const auto begin = std::chrono::steady_clock::now();
  const bool was_training = model.is_training();
  model.eval();
  const NoGrad no_grad;
  Evaluation result{Tally(classes)};
  Tally& tally = graphs != nullptr ? graphs->sums : result.tally;
  tally.clear();
  const auto forward = [&](StepTensors& step) {
    input.make_batch(step.x, step.y);
    step.scores = scores_of(model, step.x, settings);
    step.loss = cross_entropy(step.scores, step.y);
  };
  const StepGraphs::Work recorded = [&](StepTensors& step) {
    forward(step);
    tally.record(step.scores, step.y, step.loss);
  };
  const auto launches = [&](const StepGraphs::Batch& batch) {
    if (graphs == nullptr) return false;
    const bool had_problem = graphs->graphs.has_problem();
    const bool takes = graphs->graphs.takes(batch, {.evaluation = true}, recorded);
    if (!had_problem && graphs->graphs.has_problem()) graphs->graphs.give_pool_back();
    return takes;
  };
  ProgressState state{.label = "eval", .total = input.loader.size()};
  for (auto& [x, y] : input.batches()) {
    StepTensors step{.x = x, .y = y, .scores = {}, .loss = {}};
    const StepGraphs::Batch batch{x, y, input.keeps_places()};
    if (launches(batch)) {
      step = graphs->graphs.launch(batch);
      tally.launched(x.dim(0));
    } else {
      forward(step);
      tally.add(step.scores, step.y, step.loss);
    }
    if (observer) observer(step.scores, step.y);
    result.seconds = seconds_since(begin);
    result.complete = StopRequests::asked() == 0;
    if (!result.complete) break;
    if (state.done % kBatchesBetweenReads == 0) tally.read();
    state.loss = tally.loss();
    state.accuracy = tally.accuracy();
    state.images_per_second = static_cast<double>(tally.count()) / result.seconds;
    ++state.done;
    state.eta_seconds = result.seconds / static_cast<double>(state.done) *
                        static_cast<double>(state.total - state.done);
    progress.show(state);
  }
  if (state.done < state.total) result.complete = false;  // also in the wait for a batch
  tally.read();
  if (graphs != nullptr) result.tally.join(tally);
  result.seconds = seconds_since(begin);
  progress.clear();
  model.train(was_training);
  return result;
}

}  // namespace lathe::cli
