// evaluate(): train::evaluate() as the settings say.
#include "lathe/tools/cli/training/evaluate.h"

#include <limits>

#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/unary.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

train::LossFunction loss_of_scores(nn::Module& model, const Settings& settings,
                                   bool are_probabilities) {
  return [&model, &settings, are_probabilities](const Tensors& batch) {
    constexpr double kSmallest = std::numeric_limits<float>::min();  // has a finite logarithm
    Tensor scores = model(in_layout(batch[0], settings)).to(kF32);
    if (are_probabilities) scores = log(clamp(scores, {.low = kSmallest}));
    return train::Result{
        .loss = cross_entropy(scores, batch[1]), .output = scores, .target = batch[1]};
  };
}

}  // namespace

train::LossFunction evaluation_loss_of(nn::Module& model, const Settings& settings) {
  return loss_of_scores(model, settings, false);
}

train::Evaluation evaluate(const SavedRun& run, Input& input, train::Progress& progress,
                           const BatchObserver& observer) {
  const auto batches = input.for_training();
  train::EvaluateOptions options{
      .amp = run.settings.amp,
      .stop = [] { return StopRequests::asked() != 0; },
      .progress = [&](const train::ProgressState& state) { progress.show(state); }};
  if (observer) options.on_batch = [&](const train::Result& r) { observer(r.output, r.target); };
  train::Evaluation result = train::evaluate(
      *run.model, *batches, loss_of_scores(*run.model, run.settings, run.gives_probabilities),
      train::Tally({.scores = true, .classes = run.images->classes()}), options);
  progress.clear();
  return result;
}

}  // namespace lathe::cli
