// What makes flags idle that only the made training tells.
#include "lathe/tools/cli/training/idle_flags.h"

#include <algorithm>
#include <functional>

#include "lathe/core/ceil_div.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/training/fine_tuning.h"

namespace lathe::cli {
namespace {

// Why a GPU times no convolution, whose result --algo-cache would keep; "" if it does.
std::string_view untimed(const Settings& settings, Device device) {
  if (!device.is_cuda()) return "";  // which flags_without_effect() says
  if (settings.deterministic) return "with --deterministic: nothing is timed";
  return settings.cudnn_benchmark.value_or(true) ? "" : "without --cudnn-benchmark";
}

// What of the schedule lies beyond the end of the run, or is too short.
void note_idle_schedule(const Settings& settings, const Schedule& schedule,
                        std::vector<std::string>& remarks) {
  const int64_t epochs = ceil_div(schedule.total_steps, schedule.steps_per_epoch);
  const std::string run = count_text(epochs, "epoch");
  if (settings.warmup_epochs > 0 && schedule.warmup_steps == 0)
    remarks.push_back(formatted("--warmup-epochs {} is less than half a step: nothing warms up",
                                number_text(settings.warmup_epochs)));
  if (schedule.kind == Schedule::Kind::kStep && schedule.step_size >= epochs)
    remarks.push_back(
        formatted("--step-size {} is not reached in {}, so the learning rate never falls",
                  schedule.step_size, run));
  if (schedule.kind == Schedule::Kind::kRestarts && schedule.restart_epochs >= epochs)
    remarks.push_back(
        formatted("--restart-epochs {} is not less than the {} of the run: nothing restarts",
                  schedule.restart_epochs, run));
  if (schedule.kind == Schedule::Kind::kMultiStep) {
    for (const int64_t milestone : schedule.milestones) {
      if (milestone >= epochs)
        remarks.push_back(formatted("--milestones: {} is not reached in {}", milestone, run));
    }
  }
  if (schedule.kind == Schedule::Kind::kPlateau) {
    // The first evaluation is the best so far. What the last one changes no step uses.
    const int64_t looks = ceil_div(epochs, settings.eval_every);
    if (schedule.patience + 2 >= looks)
      remarks.push_back(formatted(
          "--patience {} cannot be exceeded with {} in {}, so the learning rate never falls",
          schedule.patience, count_text(looks, "evaluation"), run));
  }
}

// What would happen only after the end of the run. A number that equals the end is harmless.
void note_beyond_end(const Settings& settings, const Setup& setup,
                     const std::function<bool(std::string_view)>& is_given,
                     std::vector<std::string>& remarks) {
  const int64_t steps = setup.schedule.total_steps;
  const int64_t epochs = ceil_div(steps, setup.schedule.steps_per_epoch);
  const auto note = [&](std::string_view key, int64_t value, int64_t reached, int64_t length,
                        std::string_view unit, std::string_view what) {
    if (is_given(key) && value > 0 && reached > length)
      remarks.push_back(formatted("--{} {} is not reached in {}: {}", key, value,
                                  count_text(length, unit), what));
  };
  note("max-steps", settings.max_steps, settings.max_steps, steps, "step",
       "the epochs end the run");
  note("stop-after", settings.stop_after, settings.stop_after, steps, "step",
       "the run goes to its end");
  note("save-every", settings.save_every, settings.save_every, steps, "step",
       "only ends of epochs are saved");
  // The earliest best is that of the first epoch, and to stop after the last one is no stop.
  note("early-stopping", settings.early_stopping, settings.early_stopping + 2, epochs, "epoch",
       "the run goes to its end");
}

bool any_trains(const Tensors& parameters) {
  return std::ranges::any_of(parameters, &Tensor::requires_grad);
}

// Steps of more images than there are.
void note_large_steps(const Settings& settings, const Setup& setup,
                      const std::function<bool(std::string_view)>& is_given,
                      std::vector<std::string>& remarks) {
  const int64_t images = setup.images.training;
  if (is_given("batch-size") && *settings.batch_size > images)
    remarks.push_back(
        formatted("--batch-size {} is more than the {} training images: each step "
                  "has all of them",
                  *settings.batch_size, images));
  const int64_t batches =
      settings.drop_last ? images / *settings.batch_size : ceil_div(images, *settings.batch_size);
  if (is_given("accumulate") && settings.accumulate > batches)
    remarks.push_back(
        formatted("--accumulate {} is more than the batches of an epoch: each step has only {}",
                  settings.accumulate, formatted("{} batch{}", batches, batches == 1 ? "" : "es")));
}

}  // namespace

bool has_batch_norm(nn::Module& model) {
  return std::ranges::any_of(model.named_modules(), [](const auto& entry) {
    return entry.second->has_running_statistics();
  });
}

std::vector<std::string> idle_flags(const Settings& settings, const SettingSources& sources,
                                    const Setup& setup) {
  Settings on_device = settings;
  on_device.device = setup.device.is_cuda() ? "cuda" : "cpu";
  std::vector<std::string> remarks = flags_without_effect(on_device, sources);
  const auto is_given = [&](std::string_view key) { return sources.flags.contains(key); };
  const auto note = [&](bool is_on, std::string_view key, std::string_view why) {
    if (is_on && !why.empty() && is_given(key))
      remarks.push_back(formatted("--{} has no effect {}", key, why));
  };
  const std::string_view no_norm =
      has_batch_norm(setup.model) ? "" : "on a model without batch norm";
  note(settings.recompute, "recompute", no_norm);
  const std::string_view no_sync =
      is_model_file(settings.model.value_or("")) ? "on a model from a file" : no_norm;
  note(settings.sync_batch_norm, "sync-batch-norm",
       setup.ranks == 1 ? "in one process: lathe launch -n 2 train starts two ranks" : no_sync);
  note(!settings.algo_cache.empty(), "algo-cache", untimed(settings, setup.device));
  note(!settings.weights_section.empty(), "weights-section",
       settings.weights.empty() ? "without --weights" : "");
  if (settings.head_lr) {
    const auto [rest, head] = split_by_head(setup.model, setup.model.parameters());
    note(!any_trains(head), "head-lr", "with --freeze of the last layer");
    note(!any_trains(rest), "lr", "on a last layer that has --head-lr, with all others frozen");
  }
  note_large_steps(settings, setup, is_given, remarks);
  note_idle_schedule(settings, setup.schedule, remarks);
  note_beyond_end(settings, setup, is_given, remarks);
  return remarks;
}

}  // namespace lathe::cli
