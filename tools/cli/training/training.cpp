// Training: settings as options, observers of the command, and errors as exit codes.
#include "lathe/tools/cli/training/training.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/debug_scopes.h"
#include "lathe/tools/cli/training/evaluate.h"
#include "lathe/tools/cli/training/loss_scale.h"
#include "lathe/tools/cli/training/run_profile.h"
#include "lathe/tools/cli/training/screen.h"
#include "lathe/train/event_log.h"
#include "lathe/train/metrics_files.h"

namespace lathe::cli {
namespace {

train::TrainerOptions options_of(const TrainingParts& parts, int64_t total_steps) {
  const Settings& s = parts.settings;
  safetensors::Metadata about = parts.about;
  about["lathe.model"] =
      is_model_file(*s.model) ? std::filesystem::path(*s.model).filename().string() : *s.model;
  about["lathe.dataset"] = *s.dataset;
  const train::StepOptions step = step_options(s);
  return {.epochs = *s.epochs,
          .max_steps = total_steps,
          .time_limit = s.time_limit,
          .early_stopping = s.early_stopping,
          .pause_after = s.stop_after,
          .amp = step.amp,
          .scaling = step.scaling,
          .accumulate = step.accumulate,
          .clip_grad_norm = step.clip_grad_norm,
          .ema = s.ema,
          .recompute = step.recompute,
          .capture = step.capture && !wants_single_ops(s),
          .schedule = &parts.schedule,
          .eval_every = s.eval_every,
          .save_every = s.save_every,
          .keep = s.keep,
          .log_every = s.log_every,
          .metadata = std::move(about),
          .group = parts.ranks.alone() ? nullptr : &parts.ranks.group(),
          .sync_batch_norm = s.sync_batch_norm};
}

/// Batch norms that are frozen stay in evaluation mode. Adapters are saved beside each checkpoint:
/// "best-adapter" beside best.safetensors. The checkpoint has them, too, so a write that fails does
/// not stop the training: a warning says it, and the run ends with an error if no later write of
/// that name succeeded.
class KeepTuned : public train::Observer {
 public:
  KeepTuned(const Tuned& tuned, Log& log) : tuned_(tuned), log_(log) {}
  void on_epoch_begin(train::Trainer&) override { tuned_.frozen.hold(); }
  void on_save(train::Trainer& trainer, std::string_view name) override {
    if (!tuned_.lora || !trainer.is_first_rank()) return;
    std::string& failure = failures_[std::string(name)];
    try {
      tuned_.lora->save((trainer.folder() / formatted("{}-adapter", name)).string());
      failure.clear();
    } catch (const FileError& e) {
      if (failure.empty())
        log_.warning(formatted("{}; {}.safetensors has the adapters, too", e.message(), name));
      failure = e.message();
    }
  }
  void on_end(train::Trainer&, const train::FitResult&) override {
    for (const auto& [name, failure] : failures_) {
      if (!failure.empty()) throw train::SaveError(failure);
    }
  }

 private:
  const Tuned& tuned_;
  Log& log_;
  std::map<std::string, std::string> failures_;  // of the last write of each name; "": none
};

/// --detect-anomaly and --sync.
class FindFaults : public train::Observer {
 public:
  FindFaults(const Settings& settings, Log& log) : settings_(settings), log_(log) {}

  void on_start(train::Trainer& trainer) override {
    announce_debug_scopes(settings_, trainer.device(), trainer.scales_loss(), log_);
  }
  std::shared_ptr<void> around_batches(train::Trainer& trainer) override {
    auto scopes = std::make_shared<DebugScopes>(settings_, trainer.device(), trainer.scales_loss());
    scopes_ = scopes;
    return scopes;
  }
  void on_batches_end(train::Trainer&) override {
    if (const auto scopes = scopes_.lock()) scopes->check();
  }

 private:
  const Settings& settings_;
  Log& log_;
  std::weak_ptr<DebugScopes> scopes_;
};

/// --profile.
class Profile : public train::Observer {
 public:
  Profile(const Settings& settings, Log& log) : settings_(settings), log_(log) {}

  void on_start(train::Trainer& trainer) override {
    const int64_t total = trainer.total_steps();
    const int64_t last = settings_.stop_after > 0 ? std::min(settings_.stop_after, total) : total;
    profile_.emplace(parse_profile_steps(settings_.profile_steps),
                     std::max<int64_t>(last - trainer.step(), 0), trainer.device(),
                     trainer.folder(), log_);
  }
  void on_step(train::Trainer&) override { profile_->after_step(); }

 private:
  const Settings& settings_;
  Log& log_;
  std::optional<RunProfile> profile_;
};

/// TrainingParts::after_step.
class AfterStep : public train::Observer {
 public:
  explicit AfterStep(const std::function<bool(int64_t)>& call) : call_(call) {}
  void on_step(train::Trainer& trainer) override {
    if (!call_(trainer.step())) trainer.stop();
  }

 private:
  const std::function<bool(int64_t)>& call_;
};

train::LossFunction looked_at(train::LossFunction loss, const Settings& settings,
                              const train::Trainer& trainer) {
  if (!settings.detect_anomaly) return loss;
  return [loss = std::move(loss), &settings, &trainer](const Tensors& batch) {
    ForwardScope scope(settings, trainer.scales_loss());
    train::Result result = loss(batch);
    scope.check();
    return result;
  };
}

}  // namespace

Training::Training(TrainingParts&& parts, int64_t total_steps)
    : settings_(parts.settings),
      parts_(std::move(parts)),
      train_(parts_.train.for_training()),
      test_(parts_.test.for_training()),
      broken_({&parts_.train.loader.dataset(), &parts_.test.loader.dataset(),
               parts_.held_out ? &parts_.held_out->loader.dataset() : nullptr},
              parts_.log),
      trainer_(parts_.model, parts_.schedule.optimizer(), options_of(parts_, total_steps)) {
  if (parts_.held_out != nullptr) held_out_ = parts_.held_out->for_training();
  trainer_.classifies();
  trainer_.loss(looked_at(loss_of(parts_.model, settings_), settings_, trainer_));
  trainer_.evaluation_loss(evaluation_loss_of(parts_.model, settings_));
  add_observers();
}

void Training::add_observers() {
  Log& log = parts_.log;
  trainer_.add(std::make_shared<FindFaults>(settings_, log));
  if (settings_.profile) trainer_.add(std::make_shared<Profile>(settings_, log));
  if (!parts_.is_trial) {
    trainer_.add(train::metrics_files());
    if (settings_.tensorboard) trainer_.add(train::tensorboard());
    for (const auto& observer : parts_.observers) trainer_.add(observer);
    trainer_.add(std::make_shared<Screen>(settings_, parts_.out, log, broken_, parts_.ranks));
  }
  if (parts_.after_step) trainer_.add(std::make_shared<AfterStep>(parts_.after_step));
  // Last: it may throw at the end, when the others have said how the run ended.
  trainer_.add(std::make_shared<KeepTuned>(parts_.tuned, log));
}

ExitCode Training::run() {
  try {
    return end(held_out_ ? trainer_.fit(*train_, *test_, *held_out_)
                         : trainer_.fit(*train_, *test_));
  } catch (const train::DivergedError& e) {
    const char* const advice = e.kind() == train::DivergedError::Kind::kLoss
                                   ? "; a lower --lr or --clip-grad-norm 1 may help"
                                   : "";
    throw CommandError(ExitCode::kDiverged, concat(e.cause(), advice, e.saved()));
  } catch (const train::SaveError& e) {
    throw CommandError(ExitCode::kError, e.message());
  } catch (const train::RecordError& e) {
    throw CommandError(ExitCode::kError, e.message());
  } catch (const FileError& e) {  // apart from that, only samples are read from files
    throw CommandError(ExitCode::kData, e.message());
  }
}

ExitCode Training::end(const train::FitResult& result) const {
  if (result.signal != 0) return exit_code_of_signal(result.signal);
  if (result.end == train::End::kPause) return ExitCode::kDone;
  if (result.end != train::End::kTime)  // then the run can continue with a smaller scale
    fail_if_all_skipped(settings_, result.skipped_steps, result.steps);
  const double target =
      settings_.target_acc > 1 ? settings_.target_acc / 100 : settings_.target_acc;
  if (result.best < target) {
    throw CommandError(
        ExitCode::kCheckFailed,
        formatted("--target-acc: the best {} accuracy is {:.2f} %, below {:.2f} %",
                  held_out_ ? "validation" : "test", 100 * result.best, 100 * target));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
