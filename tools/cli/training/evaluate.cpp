// evaluate(): train::evaluate() as the settings say.
#include "lathe/tools/cli/training/evaluate.h"

#include <limits>

#include "lathe/nn/averaged_views.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/unary.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

train::Result result_of(const Tensor& scores, const Tensor& labels) {
  return {.loss = cross_entropy(scores, labels), .output = scores, .target = labels};
}

}  // namespace

train::LossFunction evaluation_loss_of(nn::Module& model, const Settings& settings) {
  return [&model, &settings, views = views_of(settings)](const Tensors& batch) {
    const Tensor x = in_layout(batch[0], settings);
    const auto scores = [&](const Tensor& view) { return model(view).to(kF32); };
    return result_of(views ? nn::average_views(scores, x, *views) : scores(x), batch[1]);
  };
}

train::Evaluation evaluate(const SavedRun& run, Input& input, train::Progress& progress,
                           const BatchObserver& observer) {
  const auto batches = input.for_training();
  train::EvaluateOptions options{
      .amp = run.settings.amp,
      .stop = [] { return StopRequests::asked() != 0; },
      .progress = [&](const train::ProgressState& state) { progress.show(state); }};
  if (observer) options.on_batch = [&](const train::Result& r) { observer(r.output, r.target); };
  const auto loss = [&](const Tensors& batch) {
    constexpr double kSmallest = std::numeric_limits<float>::min();  // has a finite logarithm
    Tensor scores = (*run.model)(in_layout(batch[0], run.settings)).to(kF32);
    if (run.gives_probabilities) scores = log(clamp(scores, {.low = kSmallest}));
    return result_of(scores, batch[1]);
  };
  train::Evaluation result =
      train::evaluate(*run.model, *batches, loss,
                      train::Tally({.scores = true, .classes = run.images->classes()}), options);
  progress.clear();
  return result;
}

}  // namespace lathe::cli
