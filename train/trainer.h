// Trainer: trains a model: epochs, evaluations, checkpoints.
//
//   train::Trainer trainer(net, optimizer,
//                          {.epochs = 30, .amp = "bf16", .run_dir = "runs/a", .resume = "auto"});
//   trainer.add(train::progress_bar()).add(train::accuracy());
//   const train::FitResult result = trainer.fit(loader, test_loader);
//
// A program that is killed at any moment and started again continues where it was, and ends with
// the same bits. Model, optimiser and loaders may be those of any task: loss() says what a batch
// means.
//
// trainer.cpp: the loop; trainer_start.cpp: new runs and resumed ones; trainer_state.cpp: what a
// checkpoint holds; trainer_evaluate.cpp: evaluations; trainer_end.cpp: ways to end;
// trainer_rows.cpp: metrics and progress; trainer_ranks.cpp: several ranks.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/scheduler.h"
#include "lathe/train/batches.h"
#include "lathe/train/errors.h"
#include "lathe/train/metric.h"
#include "lathe/train/observer.h"
#include "lathe/train/step.h"

namespace lathe::train {

struct TrainerOptions {
  // --- how long; the first limit reached ends the training. pause_after and signals do not end the
  // run, only this process: the run can be resumed.
  int64_t epochs = 1;
  int64_t max_steps = 0;         // updates; 0: no limit
  double time_limit = 0;         // seconds; 0: no limit
  int64_t early_stopping = 0;    // epochs without a better evaluation; 0: no limit
  int64_t pause_after = 0;       // updates; the run can be resumed; 0: no pause
  bool stop_on_signals = false;  // SIGINT, SIGTERM, SIGHUP: stop after the step (stop_signals.h)

  // --- steps (StepOptions)
  std::string amp = "off";  // or "bf16", "fp16"
  std::optional<optim::GradScalerOptions> scaling = {};
  int64_t accumulate = 1;
  double clip_grad_norm = 0;
  double ema = 0;  // decay of an average of the weights, which is evaluated and saved as the best
  bool recompute = false;
  bool capture = true;

  // --- learning rate and evaluation
  optim::LRScheduler* schedule = nullptr;  // must outlive the trainer; null: the rate is constant
  bool schedule_by_epoch = false;          // its step() is called once an epoch, not once a step
  int64_t eval_every = 1;                  // epochs; 0: only at the end
  // The metric whose best value chooses best.safetensors. Empty: the accuracy of a classification,
  // else the first metric, else the loss.
  std::string monitor = {};

  // --- the run folder; empty: nothing is written
  std::filesystem::path run_dir = {};
  // Where to go on. "": a new run, in a folder that holds no run. "auto": the run of run_dir, or a
  // new one if run_dir holds no run. A folder: the run in it. A checkpoint: its state; the run goes
  // on in run_dir. The trainer checks only that the number of batches is still that of the run so
  // far.
  std::string resume = {};
  int64_t save_every = 0;  // updates between checkpoints; each epoch saves one in any case
  int64_t keep = 1;        // above 1: this many checkpoints stay, as step-N.safetensors
  int64_t log_every = 50;  // updates between rows of metrics
  safetensors::Metadata metadata = {};  // of the checkpoints

  // --- ranks (distributed/). The loader gives each rank its own part of every batch, as with a
  // DistributedSampler; all ranks need the same number of batches. Must outlive the trainer.
  distributed::ProcessGroup* group = nullptr;
  bool sync_batch_norm = false;
};

/// What a resumed run has in common with the run so far.
struct Unchanged {
  bool batches = true;
  bool evaluated = true;  // the samples that evaluations look at: their metrics can be compared
};

/// A training. It ends in one of these ways:
///   - The epochs, max_steps, time_limit or the patience of early_stopping are over. The trainer
///     then evaluates.
///   - A signal, pause_after or stop() ends it after the present step. pause_after counts the
///     updates of the whole run, time_limit the seconds of this process.
///   - A loss is not finite, DetectAnomaly finds a bad value, or the loss scale would fall below
///     its floor. The trainer saves the last state whose own loss is known to be finite, because a
///     later state may have caused the bad loss. Then it throws DivergedError.
///   - Any other error occurs. The trainer saves the present state and passes the error on. On a
///     CPU it first undoes an unfinished step. If the present state may be bad, or the GPU has
///     failed, it saves the last good state instead.
///   - Another rank has ended. The trainer acts as after any other error, but never saves the state
///     of an unfinished step.
/// With a run folder, the trainer leaves two checkpoints there: last.safetensors, from which
/// training can continue with the same bits, and best.safetensors, the best state by `monitor`.
///
/// On a GPU the trainer works on a stream of its own, and launches steps and evaluations as CUDA
/// graphs. Several ranks end, save and log after the same step, with the same numbers.
///
/// The trainer prints nothing and catches no signal, unless options or observers ask for it. A
/// thread writes checkpoints; this thread ends with the trainer. A Trainer cannot be copied or
/// moved, and is not thread-safe.
class LATHE_API Trainer {
 public:
  /// Model and optimiser must outlive the trainer. Training computes on the device where the model
  /// is.
  /// throws: ValueError for options that are out of range or exclude each other.
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // --- before fit() ----
  /// The forward pass: f(batch) → the loss, 0-d, or a Result. `batch` is a Tensors, or any type
  /// that batch_of() makes: pairs, tuples and structs of tensors. Without it the task is
  /// classification(model), with train::accuracy().
  template <class Batch = Tensors, class F>
  Trainer& loss(F f) {
    return set_loss(as_loss_function<Batch>(std::move(f)));
  }
  /// Sets another loss function for evaluations, for example one without label smoothing.
  template <class Batch = Tensors, class F>
  Trainer& evaluation_loss(F f) {
    return set_evaluation_loss(as_loss_function<Batch>(std::move(f)));
  }
  /// Says that the loss function's `output` holds class scores [N,C], and its `target` class
  /// numbers [N]. The trainer then adds up "accuracy" together with the losses. Class numbers
  /// outside [0, C) count as misses.
  Trainer& classifies(bool yes = true);
  /// Adds a metric. The trainer computes it over the steps of each row of metrics, over epochs and
  /// over evaluations.
  Trainer& add(Metric metric);
  /// Calls an observer from now on.
  /// throws: ValueError for null.
  Trainer& add(std::shared_ptr<Observer> observer);

  /// Trains; a trainer can do this once. `train` and `validation` are loaders (batches_of());
  /// without `validation` nothing is evaluated. `test` is evaluated once, at the end, with the
  /// weights of best.safetensors.
  /// throws: what the loaders throw, SaveError, RecordError, FileError, and
  ///   - DivergedError if a loss is not finite
  ///   - StateError if fit() was called before
  ///   - ValueError for two metrics of one name, a monitor that is no metric, or a loader without
  ///     batches
  ///   - DataError if a loader's size() is wrong, or a run cannot be resumed
  ///   - LockHeldError if another process or trainer trains in the run folder
  template <class Train>
  FitResult fit(Train&& train) {
    return fit_on(*as_batches(train), nullptr, nullptr);
  }
  template <class Train, class Validation>
  FitResult fit(Train&& train, Validation&& validation) {
    return fit_on(*as_batches(train), as_batches(validation).get(), nullptr);
  }
  template <class Train, class Validation, class Test>
  FitResult fit(Train&& train, Validation&& validation, Test&& test) {
    return fit_on(*as_batches(train), as_batches(validation).get(), as_batches(test).get());
  }

  // --- in pieces: for a program that finds the start of a run itself ----
  /// Continues from a checkpoint, with the hyper-parameters of the current optimiser and schedule.
  /// Call it after loss() and add(). Messages call the checkpoint `name`. → the step
  ///   - If the batches have changed, an unfinished epoch starts again.
  ///   - If evaluations use other samples, earlier results no longer count: the next evaluation is
  ///     the best one so far.
  /// throws: ValueError listing what does not fit; then nothing has changed.
  int64_t resume(const Checkpoint& from, const std::string& name, const Unchanged& same = {});
  /// The parts of a checkpoint ("model", "optimizer", …) that resume() cannot take. Loads the other
  /// parts from the checkpoint. Call it to explain an error, and do not train afterwards.
  std::vector<std::string> misfits(const Checkpoint& from);
  /// Makes fit() write into `folder`, which the caller has locked (RunLock). `goes_on`: the folder
  /// already holds this run. `kept`: the value of `monitor` in the folder's best.safetensors, if
  /// there is one.
  void use_folder(const std::filesystem::path& folder, bool goes_on, std::optional<double> kept);

  // --- for observers ----
  /// The training pauses after the present step, as with pause_after.
  void stop();
  nn::Module& model();
  optim::Optimizer& optimizer();
  /// The averages of the weights (options.ema), after fit() or resume() was called; otherwise null.
  optim::EMA* ema();
  Device device() const;
  const TrainerOptions& options() const;
  const std::filesystem::path& folder() const;  // of the run; empty if nothing is written
  bool is_first_rank() const;
  int64_t epoch() const;        // from 1
  int64_t step() const;         // updates of the run so far
  int64_t begin_step() const;   // the step from which this process began or resumed
  int64_t rows() const;         // of metrics, those before a resume included
  void set_rows(int64_t rows);  // the metrics files have `rows` rows; for the observer of the files
  bool goes_on() const;         // true: resumes a run that the folder already holds
  int64_t total_steps() const;  // of the whole run, unless something ends it early
  double best() const;          // the best value of `monitor` so far
  int64_t best_epoch() const;   // its epoch; 0 if there was no evaluation
  bool scales_loss() const;
  /// A row with all columns of this training's rows; its values mean nothing.
  MetricsRow row_layout() const;
  /// Tells all observers (Observer::on_message).
  void say(MessageKind kind, const std::string& text);
  /// Returns the progress of the present epoch. On a GPU its losses are those of the last row of
  /// metrics.
  ProgressState progress() const;
  /// The most bytes that tensors held on the device since the trainer was made.
  int64_t memory_peak() const;
  bool has_saved_best() const;

 private:
  struct Impl;

  static bool is_accuracy(const Metric& metric) { return metric.is_accuracy_; }
  Trainer& set_loss(LossFunction loss);
  Trainer& set_evaluation_loss(LossFunction loss);
  FitResult fit_on(Batches& train, Batches* validation, Batches* test);

  template <class Batch, class F>
  static LossFunction as_loss_function(F f) {
    if constexpr (std::same_as<Batch, Tensors> && std::same_as<F, LossFunction>) {
      return f;
    } else {
      return [f = std::move(f)](const Tensors& batch) {
        if constexpr (std::convertible_to<decltype(f(batch_of<Batch>(batch))), Result>) {
          return static_cast<Result>(f(batch_of<Batch>(batch)));
        } else {
          return Result{.loss = f(batch_of<Batch>(batch))};
        }
      };
    }
  }

  template <class Loader>
  std::shared_ptr<Batches> as_batches(Loader& loader) {
    if constexpr (std::derived_from<Loader, Batches>) {
      return {std::shared_ptr<void>(), &loader};
    } else {
      return batches_of(loader, device());
    }
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::train
