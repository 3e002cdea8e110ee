// The training loop: epochs, steps, evaluations. What it shows and writes: trainer_rows.cpp; ways
// to end: trainer_end.cpp; several ranks: trainer_ranks.cpp.
#include "lathe/tools/cli/training/trainer.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/cuda_graph.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/step_graphs.h"
#include "lathe/distributed/sync_batch_norm.h"
#include "lathe/nn/summary.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/compute_stream.h"
#include "lathe/tools/cli/training/debug_scopes.h"
#include "lathe/tools/cli/training/loss_scale.h"
#include "lathe/tools/cli/wrapping.h"

namespace lathe::cli {

Trainer::Trainer(const TrainingParts& parts, int64_t total_steps)
    : settings_(parts.settings),
      parts_(parts),
      optimizer_(parts.schedule.optimizer()),
      memory_(parts.train.device),
      progress_(parts.settings.progress, parts.settings.quiet),
      broken_({&parts.train.loader.dataset(), &parts.test.loader.dataset(),
               parts.held_out ? &parts.held_out->loader.dataset() : nullptr},
              parts.log),
      total_steps_(total_steps),
      undo_(parts.model) {
  if (settings_.ema > 0)
    ema_.emplace(parts_.model, optim::EMAOptions{.decay = settings_.ema, .warm_up = true});
  if (on_ranks() && settings_.sync_batch_norm)
    distributed::convert_sync_batch_norm(parts_.ranks.group(), parts_.model);
  train::StepOptions options = step_options(settings_);
  options.ema = ema_ ? &*ema_ : nullptr;
  options.group = on_ranks() ? &parts_.ranks.group() : nullptr;
  options.capture = captures_steps();
  const auto forward_of = [this, loss = loss_of(parts_.model, settings_)](const Tensors& batch) {
    return forward(batch, loss);
  };
  train_step_ = std::make_unique<train::Step>(parts_.model, optimizer_, forward_of, options);
  if (train_step_->graphs() != nullptr) {
    parts_.train.keep_places();
    parts_.test.keep_places();
  }
  parts_.log.before_line([this] { progress_.clear(); });
}

void Trainer::open(const std::filesystem::path& folder, bool goes_on) {
  folder_ = folder;
  if (!parts_.ranks.is_first()) {
    saves_.emplace(folder, settings_.keep, nullptr);
    return;
  }
  metrics_.emplace(folder, metrics_row({.loss_scale = scaler().enabled() ? 1.0 : 0.0}), goes_on);
  if (settings_.tensorboard) events_.emplace(folder, step_, parts_.log);
  saves_.emplace(folder, settings_.keep, [this] { return checkpoint(); });
}

void Trainer::go_back(double accuracy_of_best) {
  if (metrics_) metrics_->cut(resumed_rows_);
  kept_accuracy_ = std::min(accuracy_of_best, best_accuracy_);
  saves_->found_last();
}

ExitCode Trainer::run() {
  const ComputeStream on(parts_.train.device);
  saves_->begin(step_);
  announce_debug_scopes(settings_, parts_.train.device, scaler().enabled(), parts_.log);
  if (settings_.profile)
    profile_.emplace(parse_profile_steps(settings_.profile_steps), steps_to_make(),
                     parts_.train.device, folder_, parts_.log);
  try {
    announce();
    // An epoch in which a checkpoint was made is finished even if all steps are done.
    for (bool first = true;
         epoch_open_ ? first || stop_reason() == Stop::kNo
                     : epoch_ < *settings_.epochs && stop_reason() == Stop::kNo && !stops_early();
         first = false) {
      if (!epoch_open_) begin_epoch();
      train_epoch();
      if (pauses()) return pause();
      if (!evaluated_ && evaluates_after(epoch_)) evaluate_now();
      if (pauses()) return pause();
      end_epoch();
    }
    return finish();
  } catch (const train::SaveError& e) {
    save_after_error();
    throw CommandError(ExitCode::kError, e.message());
  } catch (const FileError& e) {  // apart from that, only samples are read from files
    save_after_error();
    throw CommandError(ExitCode::kData, e.message());
  } catch (...) {
    save_after_error();
    throw;
  }
}

void Trainer::announce() {
  parts_.out.row(Row()
                     .add("event", "start")
                     .add("run_dir", folder_.string())
                     .add("device", concat(parts_.train.device))
                     .add("parameters", nn::count_parameters(parts_.model))
                     .add("steps", total_steps_));
}

void Trainer::begin_epoch() {
  ++epoch_;
  batch_ = 0;
  epoch_open_ = true;
  epoch_tally_.clear();
}

// Continues the epoch from batch_ on.
void Trainer::train_epoch() {
  try {
    if (stop_reason() == Stop::kNo) train_batches();
  } catch (const debug::AnomalyError& e) {  // the present weights may have led to it
    end_at_good_state(formatted("{} (in step {})", e.message(), step_ + 1));
  }
  if (pauses()) return progress_.clear();  // the open row of metrics continues with the run
  if (batch_ < parts_.train.loader.size() && step_ < total_steps_) save_to_go_on();
  write_window();
  progress_.clear();
}

// Saves at the --time-limit or a stop. What is evaluated and written after this is only for
// readers: the run that continues would not have done it here.
void Trainer::save_to_go_on() {
  if (saves_->last_is_sealed()) return;
  if (!window_is_finite()) fail_diverged("train", window_.loss());
  save("last");
  saves_->seal_last();
}

void Trainer::train_batches() {
  // If the run so far ended at the step before, its row is still missing.
  if (window_.count() > 0 && step_ % settings_.log_every == 0) after_step();
  parts_.model.train();
  parts_.frozen.hold();
  parts_.train.loader.set_epoch(epoch_ - 1, batch_);
  batch_began_ = Clock::now();
  DebugScopes scopes(settings_, parts_.train.device, scaler().enabled());
  for (auto& [x, y] : parts_.train.batches()) {
    step_batch(x, y);
    if (train_step_->ends_update()) update();
    const debug::AllowSync between_steps;
    const double took = seconds_since(batch_began_);
    batch_began_ = Clock::now();
    window_seconds_ += took;
    train_seconds_ += took;
    if (train_step_->batches() > 0) continue;
    after_step();
    say_saved();
    show_progress();
    if (stop_reason() != Stop::kNo) break;
  }
  scopes.check();
}

// Writes the row of metrics and the checkpoint if they are due.
void Trainer::after_step() {
  if (step_ % settings_.log_every == 0) write_window();
  const bool asked = take_save_request();
  if (asked || (settings_.save_every > 0 && step_ % settings_.save_every == 0)) save("last");
  if (asked) {
    saves_->wait();
    progress_.clear();
    parts_.log.line(
        formatted("SIGUSR1: saved {} of step {}, and goes on", saves_->last_file(), step_));
  }
}

// Steps whose host looks at each op, or at the values of all ranks, are not captured.
bool Trainer::captures_steps() const {
  return settings_.capture && !wants_single_ops(settings_) &&
         !(on_ranks() && settings_.sync_batch_norm);
}

// Whether the epoch ends with the batch that comes next.
bool Trainer::is_last_batch() const {
  return batch_ + train_step_->batches() + 1 == parts_.train.loader.size();
}

// One batch. Its gradients add up until update(), which a graph may have done with the batch.
void Trainer::step_batch(const Tensor& x, const Tensor& y) {
  const bool begins = train_step_->batches() == 0;
  const bool snapshot = step_ % train::kStepsBetweenCandidates == 0 && step_ > 0 && begins;
  if (snapshot) {
    const debug::AllowSync copies_the_state;
    saves_->take_candidate();
  }
  if (begins && parts_.train.device.is_cpu()) undo_.begin(window_);
  inside_step_ = true;
  if (window_.count() == 0) memory_.begin_part();
  cuda::StepGraphs* const graphs = train_step_->graphs();
  const size_t recorded = graphs != nullptr ? graphs->recorded() : 0;
  const train::Result result =
      train_step_->forward({x, y}, {.last = is_last_batch(), .stays = parts_.train.keeps_places()});
  if (graphs != nullptr) {
    if (graphs->recorded() > recorded) memory_.part_is_graph(true);
    say_not_recorded("steps are");
  }
  if (on_ranks()) {
    backward_on_ranks(result);
    if (!snapshot) return;
    const debug::AllowSync waits_for_the_copy;
    meet_over_gpus();
    return saves_->accept_candidate(step_);
  }
  if (snapshot ||
      parts_.train.device.is_cpu()) {  // for a GPU see write_window(): it is not waited for here
    const debug::AllowSync seldom;
    const double value = result.loss.item<double>();
    if (!std::isfinite(value)) fail_diverged("train", value);
  }
  if (snapshot) {
    const debug::AllowSync waits_for_the_copy;
    saves_->accept_candidate(step_);
  }
  train_step_->backward();
  if (train_step_->launched()) {
    window_.launched(x.dim(0));
  } else {
    window_.add(result.output, result.target, result.loss);
  }
  window_images_ += x.dim(0);
}

// The loss of a batch. A graph also has the sums of losses and hits; with ranks see
// backward_on_ranks().
train::Result Trainer::forward(const Tensors& batch, const train::LossFunction& loss) {
  const bool is_recorded = cuda::capture_number() != 0;
  if (is_recorded) memory_.begin_part();
  Tensor x = batch[0], y = batch[1];
  parts_.train.make_batch(x, y);
  ForwardScope scope(settings_, scaler().enabled());
  const train::Result result = loss({x, y});
  scope.check();
  if (is_recorded && !on_ranks()) window_.record(result.output, result.target, result.loss);
  return result;
}

void Trainer::say_not_recorded(const char* what) {
  const std::string problem = train_step_->graphs()->take_problem();
  if (problem.empty()) return;
  parts_.log.line(formatted("{} queued kernel by kernel, not as a CUDA graph: {}", what, problem));
}

// In the last step of an epoch that is evaluated.
bool Trainer::logs_gradients() const {
  const bool ends = batch_ + train_step_->batches() >= parts_.train.loader.size();
  return settings_.tensorboard && ends && evaluates_after(epoch_);
}

// As the optimiser has used them.
void Trainer::log_gradients() {
  if (!events_) return;
  const debug::AllowSync seldom;
  events_->add_gradients(parts_.model, step_ + 1);
}

void Trainer::update() {
  const int64_t batches = train_step_->batches();
  undo_.forget();
  last_lr_ = optimizer_.lr();
  try {
    std::function<void()> look;  // on all ranks, which then round alike
    if (logs_gradients()) look = [this] { log_gradients(); };
    train_step_->update(look);
  } catch (const optim::LossScaleError& e) {  // these steps were skipped, so the weights are good
    const debug::AllowSync the_end;
    save("last");
    saves_->wait();
    parts_.ranks.part();
    throw CommandError(ExitCode::kDiverged, formatted("{}; {} holds the weights of step {}",
                                                      e.message(), saves_->last_file(), step_));
  }
  batch_ += batches;
  evaluated_ = false;
  // After the last step there is no next one that needs a learning rate.
  if (++step_ < total_steps_) parts_.schedule.step();
  inside_step_ = false;
  if (on_ranks()) saves_->losses_are_finite(step_);  // or the ranks would have ended
  if (profile_) profile_->after_step();
  if (parts_.after_step && !parts_.after_step(step_)) told_to_pause_ = true;
}

// With --ema the averages are evaluated and become the weights of best.safetensors. That file
// cannot continue bit by bit, so it must not be the only one. The evaluation's row is written
// before its result changes anything: a run that ended before that evaluates again.
void Trainer::evaluate_now() {
  if (ema_ && !saves_->has_last()) save("last");
  memory_.begin_part();
  std::optional<optim::EMA::Applied> averaged;
  if (ema_) averaged.emplace(*ema_);
  cuda::StepGraphs* const graphs = train_step_->graphs();
  const size_t recorded = graphs != nullptr ? graphs->recorded() : 0;
  const Evaluation result = evaluate_on(parts_.test, true);
  if (graphs != nullptr) {
    if (graphs->recorded() > recorded) memory_.part_is_graph(false);
    say_not_recorded("evaluations are");
  }
  if (!result.complete) return;
  const Tally& tally = result.tally;
  if (!std::isfinite(tally.loss())) fail_diverged("val", tally.loss());
  const Row row =
      add_row({.epoch = epoch_,
               .step = step_,
               .split = "val",
               .loss = tally.loss(),
               .accuracy = tally.accuracy(),
               .lr = last_lr_,
               .images_per_second = static_cast<double>(tally.count()) / result.seconds});
  if (events_) events_->add(parts_.model, step_);
  evaluated_ = true;
  evaluation_seconds_ = result.seconds;
  last_accuracy_ = tally.accuracy();
  last_loss_ = tally.loss();
  parts_.schedule.observe(last_loss_);
  if (last_accuracy_ > best_accuracy_) {
    best_accuracy_ = last_accuracy_;
    best_epoch_ = epoch_;
  }
  if (last_accuracy_ > kept_accuracy_) {
    kept_accuracy_ = last_accuracy_;
    save("best");
  }
  parts_.out.row(row);
}

void Trainer::end_epoch() {
  epoch_open_ = batch_ < parts_.train.loader.size();  // steps or time may have ended before it
  save("last");
  if (settings_.quiet) return;
  if (!epoch_line_.empty()) saves_->wait();  // the epoch was too short for the line before
  say_saved();
  const int width = terminal_width(STDOUT_FILENO);
  epoch_line_ =
      epoch_text({.epoch = epoch_,
                  .epochs = *settings_.epochs,
                  .train_loss = epoch_tally_.loss(),
                  .train_accuracy = epoch_tally_.accuracy(),
                  .evaluated = evaluated_,
                  .val_loss = last_loss_,
                  .val_accuracy = last_accuracy_,
                  .lr = last_lr_,
                  .seconds = seconds(),
                  .best_saved = saves_->take_best_saved()},
                 width > 0 ? std::min(static_cast<size_t>(width), kEpochColumns) : kEpochColumns);
  epoch_saves_ = saves_->count();
}

// Broken files are reported first: a run that continues from here does not meet them again.
void Trainer::save(const char* name) {
  meet_over_gpus();
  if (settings_.skip_broken) broken_.report();
  saves_->save(name, step_, ema_ && name == std::string_view("best"));
}

bool Trainer::window_is_finite() {
  window_.read();
  const bool finite = std::isfinite(window_.loss());
  if (finite) {
    saves_->losses_are_finite(step_);
  } else {
    saves_->loss_is_bad();
  }
  return finite;
}

Trainer::Stop Trainer::stop_reason() const {
  if (signal() != 0) return Stop::kSignal;
  if (step_ >= total_steps_) return Stop::kSteps;
  if (told_to_pause_ || (settings_.stop_after > 0 && step_ >= settings_.stop_after))
    return Stop::kPause;
  const bool time_is_over = on_ranks()
                                ? agreed_.time_is_over
                                : settings_.time_limit > 0 && seconds() >= settings_.time_limit;
  return time_is_over ? Stop::kTime : Stop::kNo;
}

// Unless something ends the run early.
int64_t Trainer::steps_to_make() const {
  const int64_t last =
      settings_.stop_after > 0 ? std::min(settings_.stop_after, total_steps_) : total_steps_;
  return std::max<int64_t>(last - step_, 0);
}

bool Trainer::pauses() const {
  const Stop reason = stop_reason();
  return reason == Stop::kSignal || reason == Stop::kPause;
}

bool Trainer::evaluates_after(int64_t epoch) const {
  if (saves_->last_is_sealed() || step_ >= total_steps_ || epoch == *settings_.epochs) return true;
  return settings_.eval_every > 0 && epoch % settings_.eval_every == 0;
}

// Says the same after a resume: all that it looks at is part of the checkpoint.
bool Trainer::stops_early() const {
  return settings_.early_stopping > 0 && evaluated_ &&
         epoch_ - best_epoch_ >= settings_.early_stopping;
}

double Trainer::data_wait() const {
  const double waited = parts_.train.loader.stats().wait_seconds;
  return train_seconds_ > 0 ? std::min(waited / train_seconds_, 1.0) : 0;
}

double Trainer::seconds() const { return seconds_since(began_); }

}  // namespace lathe::cli
