// try_training(): the parts of a training as train.cpp makes them, and the clock around its steps.
#include "lathe/tools/cli/training/trial.h"

#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/files/scratch_folder.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/formatted.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/last_batch.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/schedule.h"
#include "lathe/tools/cli/training/training.h"
#include "lathe/train/compute_stream.h"

namespace lathe::cli {
namespace {

constexpr int64_t kEndless = 1'000'000'000;  // epochs

// The settings of the steps, without those that end, evaluate, save or show a run.
Settings of_trial(Settings settings) {
  settings.epochs = kEndless;
  settings.scheduler = "none";  // the others bend with the length of the run
  settings.max_steps = settings.stop_after = settings.eval_every = settings.save_every = 0;
  settings.early_stopping = 0;
  settings.time_limit = settings.target_acc = 0;
  settings.profile = settings.tensorboard = false;
  settings.quiet = true;
  settings.progress = "none";
  return settings;
}

/// Looks at the clock after each step.
class StepClock {
 public:
  StepClock(const TrialOptions& options, Input& input, nn::Module& model)
      : options_(options), input_(input), model_(model) {
    if (options_.warm_up == 0) begin();
  }

  /// → whether the trial goes on
  bool after_step(int64_t step) {
    if (step < options_.warm_up) return true;
    if (step == options_.warm_up && options_.warm_up > 0) {
      begin();
      return true;
    }
    if (options_.after_step) options_.after_step(model_);
    times_.steps = step - options_.warm_up;
    const bool goes_on = (options_.steps == 0 || times_.steps < options_.steps) &&
                         (options_.seconds <= 0 || seconds_since(began_) < options_.seconds);
    if (!goes_on) end();
    return goes_on;
  }

  const TrialTimes& times() const { return times_; }

 private:
  void begin() {
    cuda::synchronize(input_.device);
    input_.loader.reset_stats();
    if (options_.when_warm) options_.when_warm();
    began_ = std::chrono::steady_clock::now();
  }

  void end() {
    cuda::synchronize(input_.device);
    times_.seconds = seconds_since(began_);
    times_.wait_seconds = input_.loader.stats().wait_seconds;
  }

  const TrialOptions& options_;
  Input& input_;
  nn::Module& model_;
  TrialTimes times_;
  std::chrono::steady_clock::time_point began_;
};

/// The model at the begin of a trial, on the CPU.
std::unique_ptr<nn::Module> start_of(const Settings& settings, const TrialData& data,
                                     const TrialOptions& options) {
  manual_seed(static_cast<uint64_t>(settings.seed));
  auto model = make_model(
      settings, {.classes = data.images->classes(), .in_channels = data.images->channels()});
  if (!settings.weights.empty())
    load_weights(*model, settings.weights, settings.new_head, settings.weights_section);
  if (options.prepare) options.prepare(*model);
  return model;
}

// The training's own message names the weights that it saved, which go with the folder.
ExitCode run(Training& training) {
  try {
    return training.run();
  } catch (const CommandError& e) {
    if (e.code() != ExitCode::kDiverged) throw;
    throw CommandError(e.code(),
                       "the loss is not finite in the first steps; a lower --lr or "
                       "--clip-grad-norm 1 may help, and lathe train --detect-anomaly "
                       "names the op");
  }
}

CommandError stopped_by(int signal) {
  return {exit_code_of_signal(signal), formatted("stopped by {}", name_of_signal(signal))};
}

}  // namespace

TrialData open_trial_data(const Settings& settings) {
  TrialData data{open_dataset(settings, Part::kTrain, true), {}};
  data.transform = data.images->transform();
  return data;
}

TrialTimes try_training(const Settings& asked, const TrialData& data, const TrialOptions& options) {
  LATHE_CHECK(ValueError, options.steps > 0 || options.seconds > 0,
              "try_training: neither steps nor seconds are given");
  Settings settings = of_trial(asked);
  const Device device = prepare_compute(settings);
  const train::ComputeStream on(device);
  data.images->set_transform(data.transform);
  Input input = make_input(data.images, settings, device, true);
  const int64_t per_epoch = ceil_div(input.loader.size(), settings.accumulate);
  if (per_epoch == 0) {
    throw UsageError(
        formatted("--drop-last leaves no batch: the {} images are fewer than --batch-size {}",
                  data.images->size(), *settings.batch_size));
  }
  check_last_batch(settings, {data.images->classes(), data.images->channels()}, device,
                   data.images->size(), kEndless * per_epoch);
  const auto model = start_of(settings, data, options);
  place_model(*model, device, settings);
  Frozen frozen = tune(*model, settings).frozen;
  const auto optimizer = make_optimizer(settings, *model);
  RunSchedule lr(*optimizer, make_schedule(settings, per_epoch, kEndless * per_epoch));
  const ScratchFolder folder("trial");
  const Output out(false);
  Log log(true);
  StepClock clock(options, input, *model);
  Training training({.settings = settings,
                     .model = *model,
                     .schedule = *lr,
                     .train = input,
                     .test = input,  // nothing is evaluated
                     .out = out,
                     .log = log,
                     .tuned = {.frozen = std::move(frozen)},
                     .after_step = [&](int64_t step) { return clock.after_step(step); },
                     .is_trial = true},
                    std::numeric_limits<int64_t>::max());
  training.trainer().use_folder(folder.path(), false, {});
  if (run(training) != ExitCode::kDone) throw stopped_by(StopRequests::asked());
  return clock.times();
}

TrialTimes try_evaluation(const Settings& asked, const TrialData& data, const TrialOptions& options,
                          bool gradients) {
  Settings settings = asked;
  const Device device = prepare_compute(settings);
  data.images->set_transform(data.transform);
  Input input = make_input(data.images, settings, device, false);
  const auto model = start_of(settings, data, options);
  place_model(*model, device, settings);
  model->eval();
  StepClock clock(options, input, *model);
  std::optional<NoGrad> no_grad;
  if (!gradients) no_grad.emplace();
  for (int64_t step = 0; StopRequests::asked() == 0;) {
    for (auto& [x, y] : input.batches()) {
      const Tensor loss = cross_entropy(scores_of(*model, x, settings), y);
      if (StopRequests::asked() != 0) break;
      if (!clock.after_step(++step)) return clock.times();
    }
  }
  throw stopped_by(StopRequests::asked());
}

}  // namespace lathe::cli
