// Observer: is called during a training. Progress bars, metrics files, logs and TensorBoard's
// events are observers.
//
//   struct Losses : train::Observer {
//     void on_evaluation(train::Trainer&, const train::MetricsRow& row) override {
//       std::cout << row.epoch << ' ' << row.loss << '\n';
//     }
//   };
//   trainer.add(std::make_shared<Losses>());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/train/metrics_row.h"

namespace lathe::train {

class Trainer;

/// Why a training has ended.
enum class End {
  kEpochs,  // all epochs are over
  kSteps,   // max_steps
  kTime,    // time_limit
  kEarly,   // early_stopping
  kPause,   // pause_after, or Trainer::stop()
  kSignal,  // a signal asked to stop (stop_signals.h)
};

/// The result of a training.
struct FitResult {
  End end = End::kEpochs;
  int signal = 0;  // the signal that asked to stop
  int64_t epochs = 0, steps = 0;
  // From the last evaluation; without validation batches, from the steps of the last epoch.
  double loss = 0;
  Values metrics = {};
  bool evaluated = false;  // there was an evaluation
  double best = -1;        // best value of TrainerOptions::monitor; -1 without an evaluation
  int64_t best_epoch = 0;
  bool tested = false;  // test batches were evaluated, with these results:
  double test_loss = 0;
  Values test_metrics = {};
  double seconds = 0;
  double data_wait = 0;       // fraction of the training time spent waiting for batches
  double save_wait = 0;       // fraction of the whole time spent saving
  int64_t memory_peak = 0;    // bytes that tensors held at most on the device
  int64_t skipped_steps = 0;  // updates that the loss scale skipped
};

/// The results of an epoch that has ended.
struct EpochReport {
  int64_t epoch = 0, epochs = 0;
  double train_loss = 0;
  Values train_metrics = {};
  bool evaluated = false;  // false: val_loss and val_metrics are not set
  double val_loss = 0;
  Values val_metrics = {};
  double lr = 0;
  double seconds = 0;       // since the run began or was resumed
  bool best_saved = false;  // best.safetensors; last.safetensors is saved in every epoch
};

/// The progress of a training or an evaluation.
struct ProgressState {
  std::string label = {};       // "epoch 3/10", "eval"
  int64_t done = 0, total = 0;  // steps of this pass; total 0: not known
  double loss = 0;
  Values metrics = {};
  double lr = -1;         // negative: not shown
  double loss_scale = 0;  // 0: not shown
  int64_t skipped_steps = 0;
  double samples_per_second = 0;
  double data_wait = 0;    // fraction of the time spent waiting for data
  double eta_seconds = 0;  // until the end of the run; NaN if not known
};

enum class MessageKind { kNote, kWarning, kError };

/// The trainer calls the functions of its observers on every rank (see Trainer::is_first_rank()),
/// in the thread that called fit(). It calls observers in the order in which they were added. An
/// exception ends the training: the trainer saves what it can and rethrows the exception.
class LATHE_API Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Called before the first step. The run folder exists, and holds the state of the step from
  /// which training starts or resumes.
  virtual void on_start(Trainer&) {}
  /// Called before the first batch of an epoch, or before the first remaining batch after a resume.
  /// The model is in training mode, except for modules that the program itself put into evaluation
  /// mode.
  virtual void on_epoch_begin(Trainer&) {}
  /// Called before an epoch's batches. The trainer keeps the returned object until the last batch
  /// is trained, or an error ends the epoch.
  virtual std::shared_ptr<void> around_batches(Trainer&) { return nullptr; }
  /// Called after the last batch of an epoch, also if the training ends within the epoch.
  virtual void on_batches_end(Trainer&) {}
  /// Called during the last update before an evaluation, while the gradients of this update
  /// (unscaled and clipped) are in memory. The trainer calls it only on the first rank, only if
  /// wants_gradients() of an observer is true, and not if the step is a CUDA graph.
  virtual void on_gradients(Trainer&) {}
  virtual bool wants_gradients() const { return false; }
  /// Called after an update, and after the row of metrics and the checkpoint of that update.
  virtual void on_step(Trainer&) {}
  /// Writes a row of metrics. If it throws, the run counts the row as not written.
  virtual void on_row(Trainer&, const MetricsRow&) {}
  /// Called after on_row() of all observers, for a row of training.
  virtual void on_log(Trainer&, const MetricsRow&) {}
  /// Called after each batch of an evaluation.
  virtual void on_evaluation_batch(Trainer&, const ProgressState&) {}
  /// Called after an evaluation ("val", and "test" at the end), when its row is written and the
  /// best checkpoint is saved. If there is an EMA, the model's weights are the averages during the
  /// call.
  virtual void on_evaluation(Trainer&, const MetricsRow&) {}
  /// Called after an epoch, as soon as its checkpoints are on the disk. By then the next epoch may
  /// have made some steps.
  virtual void on_epoch(Trainer&, const EpochReport&) {}
  /// Called before the state is saved as `name`: "last" or "best".
  virtual void on_save(Trainer&, std::string_view /*name*/) {}
  /// Called when training is over and everything is saved, before the test batches are evaluated.
  /// Not called for a training that pauses.
  virtual void on_trained(Trainer&, End) {}
  /// Called last, with the result that fit() returns.
  virtual void on_end(Trainer&, const FitResult&) {}
  /// Called with a message for the user, also while an error is handled.
  virtual void on_message(Trainer&, MessageKind, std::string_view /*text*/) {}
};

}  // namespace lathe::train
