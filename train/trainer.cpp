// The training loop: epochs and steps.
#include "lathe/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/debug/detect_anomaly.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/error.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/compute_stream.h"
#include "lathe/train/losses.h"
#include "lathe/train/stop_signals.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : impl_(std::make_unique<Impl>(*this, model, optimizer, std::move(options))) {}
Trainer::~Trainer() = default;

Trainer& Trainer::set_loss(LossFunction loss) {
  LATHE_CHECK(ValueError, loss != nullptr, "train::Trainer: the loss function is empty");
  impl_->task.loss = std::move(loss);
  return *this;
}

Trainer& Trainer::set_evaluation_loss(LossFunction loss) {
  LATHE_CHECK(ValueError, loss != nullptr, "train::Trainer: the loss function is empty");
  impl_->task.evaluation_loss = std::move(loss);
  return *this;
}

Trainer& Trainer::classifies(bool yes) {
  impl_->task.sums.scores = yes;
  return *this;
}

Trainer& Trainer::add(Metric metric) {
  impl_->task.sums.metrics.push_back(std::move(metric));
  return *this;
}

Trainer& Trainer::add(std::shared_ptr<Observer> observer) {
  LATHE_CHECK(ValueError, observer != nullptr, "train::Trainer: the observer is null");
  impl_->task.observers.push_back(std::move(observer));
  return *this;
}

FitResult Trainer::fit_on(Batches& train, Batches* validation, Batches* test) {
  return impl_->fit(train, validation, test);
}

void Trainer::stop() { impl_->here.told_to_stop = true; }
nn::Module& Trainer::model() { return impl_->task.model; }
optim::Optimizer& Trainer::optimizer() { return impl_->task.optimizer; }
Device Trainer::device() const { return impl_->device; }
const TrainerOptions& Trainer::options() const { return impl_->task.options; }
const std::filesystem::path& Trainer::folder() const { return impl_->files.folder; }
bool Trainer::is_first_rank() const { return impl_->ranks.is_first(); }
int64_t Trainer::epoch() const { return impl_->at.epoch; }
int64_t Trainer::step() const { return impl_->at.step; }
int64_t Trainer::begin_step() const { return impl_->here.begin_step; }
int64_t Trainer::rows() const { return impl_->at.rows; }
void Trainer::set_rows(int64_t rows) { impl_->at.rows = rows; }
bool Trainer::goes_on() const { return impl_->files.goes_on; }
int64_t Trainer::total_steps() const { return impl_->here.total_steps; }
double Trainer::best() const { return impl_->evaluated.best; }
int64_t Trainer::best_epoch() const { return impl_->evaluated.best_epoch; }
bool Trainer::scales_loss() const { return impl_->step && impl_->scaler().enabled(); }
optim::EMA* Trainer::ema() { return impl_->ema ? &*impl_->ema : nullptr; }
MetricsRow Trainer::row_layout() const {
  return {.metrics = impl_->sums.window.values(),
          .of_images = impl_->task.sums.scores,
          .loss_scale = scales_loss() ? 1.0 : 0.0};
}
void Trainer::say(MessageKind kind, const std::string& text) { impl_->say(kind, text); }
ProgressState Trainer::progress() const {
  return impl_->inputs.train != nullptr ? impl_->progress() : ProgressState();
}
int64_t Trainer::memory_peak() const { return impl_->memory.peak(); }
bool Trainer::has_saved_best() const {
  return impl_->files.saves && impl_->files.saves->has_saved_best();
}

FitResult Trainer::Impl::fit(Batches& train_batches, Batches* validation_batches,
                             Batches* test_batches) {
  LATHE_CHECK(StateError, !here.was_fit, "train::Trainer: fit() was called before");
  LATHE_CHECK(ValueError, train_batches.size() != 0,
              "train::Trainer: there are no batches to train on");
  here.began = Clock::now();
  inputs = {&train_batches, validation_batches, test_batches};
  const struct Leave {  // batches and lock are not the trainer's any more
    Impl& impl;
    ~Leave() {
      impl.inputs = {};
      impl.files.lock.reset();
    }
  } leave{*this};
  std::optional<StopSignals> signals;
  if (task.options.stop_on_signals) signals.emplace();
  prepare();
  here.was_fit = true;
  if (files.folder.empty()) find_start();
  if (on_ranks()) ranks.separate_random_numbers(device);
  open();
  if (step->graphs() != nullptr) {
    for (Batches* each : {inputs.train, inputs.validation, inputs.test}) {
      if (each != nullptr) each->keep_places();
    }
  }
  const ComputeStream on(device);
  files.saves->begin(at.step);
  try {
    return run();
  } catch (...) {
    save_after_error();
    throw;
  }
}

FitResult Trainer::Impl::run() {
  tell([&](Observer& o) { o.on_start(self); });
  // An epoch in which a checkpoint was made is finished even if all steps are done.
  for (bool first = true;
       at.epoch_open ? first || !ends()
                     : at.epoch < task.options.epochs && !ends() && !stops_early();
       first = false) {
    if (!at.epoch_open) begin_epoch();
    train_epoch();
    if (pauses()) return pause();
    if (!evaluated.now && evaluates_after(at.epoch)) evaluate_now();
    if (pauses()) return pause();
    end_epoch();
  }
  return finish();
}

void Trainer::Impl::begin_epoch() {
  ++at.epoch;
  at.batch = 0;
  at.epoch_open = true;
  sums.epoch.clear();
}

// Continues the epoch from at.batch on.
void Trainer::Impl::train_epoch() {
  reading.over = inputs.train->size() >= 0 && at.batch >= inputs.train->size();
  try {
    if (!ends()) train_batches();
  } catch (const debug::AnomalyError& e) {  // the present weights may have led to it
    end_at_good_state(DivergedError::Kind::kOther,
                      formatted("{} (in step {})", e.message(), at.step + 1));
  }
  if (pauses()) return;  // the open row of metrics continues with the run
  if (!reading.over && at.step < here.total_steps) save_to_go_on();
  write_window();
}

void Trainer::Impl::train_batches() {
  // If the run so far ended at the step before, its row is still missing.
  if (sums.window.count() > 0 && at.step % task.options.log_every == 0) after_step();
  if (!task.model.is_training()) task.model.train();  // a part that is in eval() stays so
  tell([&](Observer& o) { o.on_epoch_begin(self); });
  std::vector<std::shared_ptr<void>> scopes;
  const std::unique_ptr<Pass> pass = inputs.train->begin(at.epoch - 1, at.batch);
  reading.ahead.clear();
  here.batch_began = Clock::now();
  tell([&](Observer& o) { scopes.push_back(o.around_batches(self)); });
  for (Tensors batch; take_batch(*pass, batch);) {
    step_batch(batch);
    if (step->ends_update()) update();
    const debug::AllowSync between_steps;
    const double took = seconds_since(here.batch_began);
    here.batch_began = Clock::now();
    sums.window_seconds += took;
    sums.seconds += took;
    if (step->batches() > 0) continue;
    after_step();
    tell_epochs();
    tell([&](Observer& o) { o.on_step(self); });
    if (ends()) break;
  }
  tell([&](Observer& o) { o.on_batches_end(self); });
}

// The next batch. Where the loader does not know how many there are, one is taken ahead, so that
// the last one of an epoch is known.
bool Trainer::Impl::take_batch(Pass& pass, Tensors& batch) {
  if (inputs.train->size() >= 0) {
    const bool there = pass.next(batch);
    const int64_t taken = at.batch + step->batches(), size = inputs.train->size();
    LATHE_CHECK(DataError, there ? taken < size : taken == size || asked_by_signal(),
                "train::Trainer: the loader has ", there ? "more than " : "", taken,
                " batches, but its size() says ", size);
    reading.over = taken + (there ? 1 : 0) >= size;
    return there;
  }
  if (reading.ahead.empty() && !reading.over) reading.over = !pass.next(reading.ahead);
  batch = std::exchange(reading.ahead, {});
  if (batch.empty()) return false;
  reading.over = !pass.next(reading.ahead);
  return true;
}

// Writes the row of metrics and the checkpoint if they are due.
void Trainer::Impl::after_step() {
  if (at.step % task.options.log_every == 0) write_window();
  const bool asked = take_save_request();
  const int64_t every = task.options.save_every;
  if (asked || (every > 0 && at.step % every == 0)) save("last");
  if (asked) {
    files.saves->wait();
    say(MessageKind::kNote, formatted("SIGUSR1: saved {} of step {}; the training continues",
                                      files.saves->last_file(), at.step));
  }
}

// One batch. Its gradients add up until update(), which a graph may have done with the batch.
void Trainer::Impl::step_batch(const Tensors& batch) {
  const bool begins = step->batches() == 0;
  const bool snapshot = at.step % kStepsBetweenCandidates == 0 && at.step > 0 && begins;
  if (snapshot) {
    const debug::AllowSync copies_the_state;
    files.saves->take_candidate();
  }
  if (begins && device.is_cpu()) undo.begin(sums.window);
  here.inside_step = true;
  if (sums.window.count() == 0) memory.begin_part();
  cuda::StepGraphs* const graphs = step->graphs();
  const size_t recorded = graphs != nullptr ? graphs->recorded() : 0;
  const Result result =
      step->forward(batch, {.last = reading.over, .stays = inputs.train->keeps_places()});
  if (graphs != nullptr) {
    if (graphs->recorded() > recorded) memory.part_is_graph(true);
    say_not_recorded("steps are");
  }
  if (on_ranks()) {
    backward_on_ranks(result);
    if (!snapshot) return;
    const debug::AllowSync waits_for_the_copy;
    meet_over_gpus();
    return files.saves->accept_candidate(at.step);
  }
  if (snapshot || device.is_cpu()) {  // for a GPU see write_window(): it is not waited for here
    const debug::AllowSync seldom;
    const double value = result.loss.item<double>();
    if (!std::isfinite(value)) fail_diverged("train", value);
  }
  if (snapshot) {
    const debug::AllowSync waits_for_the_copy;
    files.saves->accept_candidate(at.step);
  }
  step->backward();
  if (step->launched()) {
    sums.window.launched(result.samples);
  } else {
    sums.window.add(result);
  }
  sums.window_samples += result.samples;
  sums.samples += result.samples;
}

// The loss of a batch. A graph also has the sums of losses and metrics; with ranks see
// backward_on_ranks().
Result Trainer::Impl::forward(const Tensors& drawn) {
  const bool is_recorded = cuda::capture_number() != 0;
  if (is_recorded) memory.begin_part();
  Tensors batch = drawn;
  inputs.train->make(batch);
  Result result = task.loss(batch);
  result.samples = batch.front().dim(0);
  if (is_recorded && !on_ranks()) sums.window.record(result);
  return result;
}

void Trainer::Impl::say_not_recorded(const char* what) {
  const std::string problem = step->graphs()->take_problem();
  if (problem.empty()) return;
  say(MessageKind::kNote,
      formatted("{} queued kernel by kernel, not as a CUDA graph: {}", what, problem));
}

void Trainer::Impl::update() {
  const int64_t batches = step->batches();
  undo.forget();
  at.last_lr = task.optimizer.lr();
  std::exception_ptr failed;  // of an observer: the update is made all the same
  try {
    std::function<void()> look;  // on all ranks, which then round alike
    if (reading.over && evaluates_after(at.epoch) &&
        std::ranges::any_of(task.observers, [](const auto& o) { return o->wants_gradients(); })) {
      look = [this, &failed] {
        const debug::AllowSync seldom;
        if (!ranks.is_first()) return;
        try {
          tell([&](Observer& o) { o.on_gradients(self); });
        } catch (...) {
          failed = std::current_exception();
        }
      };
    }
    step->update(look);
  } catch (const optim::LossScaleError& e) {  // these steps were skipped, so the weights are good
    const debug::AllowSync the_end;
    save("last");
    files.saves->wait();
    ranks.part();
    throw DivergedError(DivergedError::Kind::kOther, e.message(), saved_text(at.step));
  }
  at.batch += batches;
  evaluated.now = false;
  // After the last step there is no next one that needs a learning rate.
  if (++at.step < here.total_steps && !task.options.schedule_by_epoch) schedule().step();
  here.inside_step = false;
  if (on_ranks()) files.saves->losses_are_finite(at.step);  // or the ranks would have ended
  if (failed) std::rethrow_exception(failed);
}

void Trainer::Impl::end_epoch() {
  at.epoch_open = !reading.over;  // steps or time may have ended before it
  if (task.options.schedule_by_epoch && !at.epoch_open && at.step < here.total_steps)
    schedule().step();
  save("last");
  files.ended.push_back({{.epoch = at.epoch,
                          .epochs = task.options.epochs,
                          .train_loss = sums.epoch.loss(),
                          .train_metrics = sums.epoch.values(),
                          .evaluated = evaluated.now,
                          .val_loss = evaluated.loss,
                          .val_metrics = evaluated.metrics,
                          .lr = at.last_lr,
                          .seconds = seconds(),
                          .best_saved = files.saves->take_best_saved()},
                         files.saves->count()});
  tell_epochs();
}

void Trainer::Impl::save(const char* name) {
  meet_over_gpus();
  tell([&](Observer& o) { o.on_save(self, name); });
  files.saves->save(name, at.step, ema && name == std::string_view("best"));
}

bool Trainer::Impl::window_is_finite() {
  sums.window.read();
  const bool finite = std::isfinite(sums.window.loss());
  if (finite) {
    files.saves->losses_are_finite(at.step);
  } else {
    files.saves->loss_is_bad();
  }
  return finite;
}

std::optional<End> Trainer::Impl::ends() const {
  const TrainerOptions& o = task.options;
  if (signal() != 0) return End::kSignal;
  if (at.step >= here.total_steps) return End::kSteps;
  if (asked_to_stop() || (o.pause_after > 0 && at.step >= o.pause_after)) return End::kPause;
  const bool time_is_over =
      on_ranks() ? agreed.time_is_over : o.time_limit > 0 && seconds() >= o.time_limit;
  if (time_is_over) return End::kTime;
  return std::nullopt;
}

bool Trainer::Impl::pauses() const {
  const std::optional<End> reason = ends();
  return reason == End::kSignal || reason == End::kPause;
}

double Trainer::Impl::data_wait() const {
  return sums.seconds > 0 ? std::min(inputs.train->wait_seconds() / sums.seconds, 1.0) : 0;
}

double Trainer::Impl::save_wait() const {
  return seconds() > 0 ? std::min(files.saves->seconds() / seconds(), 1.0) : 0;
}

double Trainer::Impl::seconds() const { return seconds_since(here.began); }

}  // namespace lathe::train
