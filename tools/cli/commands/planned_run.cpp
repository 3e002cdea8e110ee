// Steps and evaluations of a recipe, by the time of one step. Contract: planned_run.h.
#include "lathe/tools/cli/commands/planned_run.h"

#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/train/plan/gpu_model.h"

namespace lathe::cli {
namespace {

// Of CIFAR-10, on which all recipes train.
constexpr int64_t kTrainingImages = 50'000, kTestImages = 10'000;

/// Those of the forward pass and the loss.
std::vector<plan::Launch> forward_of(const std::vector<plan::Launch>& step) {
  const auto end = std::ranges::find(step, "backward pass", &plan::Launch::op);
  return {step.begin(), end};
}

}  // namespace

void print_run(const Output& out, const Settings& settings, const GpuDescription& gpu,
               const std::vector<plan::Launch>& launches, int64_t batch) {
  const int64_t epochs = *settings.epochs;
  const int64_t per_epoch =
      settings.drop_last ? kTrainingImages / batch : ceil_div(kTrainingImages, batch);
  if (per_epoch == 0) {
    throw UsageError(
        formatted("--batch-size {}: an epoch of {} images has no whole batch, and {} "
                  "drops the others",
                  batch, kTrainingImages, settings.recipe));
  }
  const int64_t steps = epochs * per_epoch;
  const int64_t evaluations =
      settings.eval_every > 0 ? ceil_div(epochs, settings.eval_every) : int64_t{1};
  const int64_t views = settings.tta == "none" ? 1 : settings.tta == "mirror" ? 2 : 6;
  const double passes =
      static_cast<double>(evaluations * views * kTestImages) / static_cast<double>(batch);
  const std::vector<plan::Launch> forward = forward_of(launches);
  struct Times {
    double steps, evaluations;
    double all() const { return steps + evaluations; }
  };
  const auto times = [&](const plan::Efficiency& how) {
    return Times{static_cast<double>(steps) * plan::seconds_of(launches, gpu, how),
                 passes * plan::seconds_of(forward, gpu, how)};
  };
  const Times fast = times(plan::kFast), slow = times(plan::kSlow);
  out.row(Row()
              .add("recipe", settings.recipe)
              .add("epochs", epochs)
              .add("steps", steps)
              .add("evaluations", evaluations)
              .add("views", views)
              .add("seconds_fast", fast.all())
              .add("seconds_slow", slow.all())
              .add("evaluation_seconds_fast", fast.evaluations)
              .add("evaluation_seconds_slow", slow.evaluations));
  out.sentence(formatted(
      "recipe {}: {} epochs of {} steps, {} of all {} test images with {}: {:.2f} to {:.2f} s, of "
      "which the evaluation takes {:.2f} to {:.2f} s; not counted: starting CUDA, reading the "
      "images and copying them to the GPU, what is computed before the first step, the search for "
      "convolution engines, the capture of the graph, checkpoints",
      settings.recipe, epochs, per_epoch,
      evaluations == 1 ? "one evaluation" : formatted("{} evaluations", evaluations), kTestImages,
      views == 1 ? "one view each" : formatted("{} views each", views), fast.all(), slow.all(),
      fast.evaluations, slow.evaluations));
}

}  // namespace lathe::cli
