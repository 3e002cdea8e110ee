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
constexpr int64_t kEvaluationKind = -1;       // of the graphs of a training
}  // namespace

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
  const cuda::StepGraphs::Work forward = [&](const Tensors& batch) {
    Tensor x = batch[0], y = batch[1];
    input.make_batch(x, y);
    const Tensor scores = scores_of(model, x, settings);
    return Tensors{scores, y, cross_entropy(scores, y)};
  };
  const cuda::StepGraphs::Work recorded = [&](const Tensors& batch) {
    Tensors made = forward(batch);
    tally.record(made[0], made[1], made[2]);
    return made;
  };
  const auto launches = [&](const cuda::StepGraphs::Batch& batch) {
    if (graphs == nullptr) return false;
    const bool had_problem = graphs->graphs.has_problem();
    const bool takes = graphs->graphs.takes(batch, kEvaluationKind, recorded);
    if (!had_problem && graphs->graphs.has_problem()) graphs->graphs.give_pool_back();
    return takes;
  };
  ProgressState state{.label = "eval", .total = input.loader.size()};
  for (auto& [x, y] : input.batches()) {
    const Tensors inputs{x, y};
    const cuda::StepGraphs::Batch batch{inputs, input.keeps_places()};
    Tensors made;  // scores, labels, loss
    if (launches(batch)) {
      made = graphs->graphs.launch(batch);
      tally.launched(x.dim(0));
    } else {
      made = forward(inputs);
      tally.add(made[0], made[1], made[2]);
    }
    if (observer) observer(made[0], made[1]);
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
