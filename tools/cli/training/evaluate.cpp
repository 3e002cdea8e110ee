// evaluate(): train::evaluate() as the settings say.
#include "lathe/tools/cli/training/evaluate.h"

#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

train::LossFunction evaluation_loss_of(nn::Module& model, const Settings& settings) {
  return [&model, &settings](const Tensors& batch) {
    const Tensor scores = model(in_layout(batch[0], settings)).to(kF32);
    return train::Result{
        .loss = cross_entropy(scores, batch[1]), .output = scores, .target = batch[1]};
  };
}

train::Evaluation evaluate(nn::Module& model, Input& input, const Settings& settings,
                           int64_t classes, train::Progress& progress,
                           const BatchObserver& observer) {
  const auto batches = input.for_training();
  train::EvaluateOptions options{
      .amp = settings.amp,
      .stop = [] { return StopRequests::asked() != 0; },
      .progress = [&](const train::ProgressState& state) { progress.show(state); }};
  if (observer) options.on_batch = [&](const train::Result& r) { observer(r.output, r.target); };
  train::Evaluation result =
      train::evaluate(model, *batches, evaluation_loss_of(model, settings),
                      train::Tally({.scores = true, .classes = classes}), options);
  progress.clear();
  return result;
}

}  // namespace lathe::cli
