// Observer: sees what happens in a training. Progress bars, metrics files, logs and TensorBoard's
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
  kPause,   // pause_after, or stop() of the trainer
  kSignal,  // a signal asked to stop (stop_signals.h)
};

/// What a training has come to.
struct FitResult {
  End end = End::kEpochs;
  int signal = 0;  // that asked to stop
  int64_t epochs = 0, steps = 0;
  // Of the last evaluation; without validation batches, of the steps of the last epoch.
  double loss = 0;
  Values metrics = {};
  bool evaluated = false;  // there was an evaluation
  double best = -1;        // the best value of the metric that chooses; -1 without an evaluation
  int64_t best_epoch = 0;
  bool tested = false;  // there were test batches, and they were evaluated:
  double test_loss = 0;
  Values test_metrics = {};
  double seconds = 0;
  double data_wait = 0;       // part of the training time spent waiting for batches
  double save_wait = 0;       // part of the whole time spent saving
  int64_t memory_peak = 0;    // bytes that tensors held at most on the device
  int64_t skipped_steps = 0;  // updates that the loss scale skipped
};

/// An epoch that has ended.
struct EpochReport {
  int64_t epoch = 0, epochs = 0;
  double train_loss = 0;
  Values train_metrics = {};
  bool evaluated = false;  // false: the next two say nothing
  double val_loss = 0;
  Values val_metrics = {};
  double lr = 0;
  double seconds = 0;       // since the run began or was resumed
  bool best_saved = false;  // best.safetensors; last.safetensors is saved in every epoch
};

/// How far a training or an evaluation is.
struct ProgressState {
  std::string label = {};       // "epoch 3/10", "eval"
  int64_t done = 0, total = 0;  // steps of this pass; total 0: not known
  double loss = 0;
  Values metrics = {};
  double lr = -1;         // negative: not shown
  double loss_scale = 0;  // 0: not shown
  int64_t skipped_steps = 0;
  double samples_per_second = 0;
  double data_wait = 0;    // part of the time spent waiting for data
  double eta_seconds = 0;  // until the end of the run; NaN if not known
};

enum class MessageKind { kNote, kWarning, kError };

/// The trainer calls these functions in the thread that called fit(), for one observer after the
/// other in the order in which they were added, on every rank (Trainer::is_first_rank()). An
/// exception ends the training: it saves what it can, and passes the exception on.
class LATHE_API Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Before the first step. The run folder is there, and is that of the step from which training
  /// goes on.
  virtual void on_start(Trainer&) {}
  /// Before the first batch of an epoch, or of its rest. The model is in training mode, but for
  /// parts that the program has put into evaluation mode.
  virtual void on_epoch_begin(Trainer&) {}
  /// The trainer keeps the returned object until the epoch's batches are used up, or an error ends
  /// the epoch.
  virtual std::shared_ptr<void> around_batches(Trainer&) { return nullptr; }
  /// After the last batch of an epoch, or the last one before the training ends.
  virtual void on_batches_end(Trainer&) {}
  /// The gradients of the last update before an evaluation, unscaled and clipped. Called on the
  /// first rank, if wants_gradients() says so; not for a step that a CUDA graph makes.
  virtual void on_gradients(Trainer&) {}
  virtual bool wants_gradients() const { return false; }
  /// After an update, and after what is due with it: a row of metrics, a checkpoint.
  virtual void on_step(Trainer&) {}
  /// Write the row of metrics. If this throws, the run counts it as not written.
  virtual void on_row(Trainer&, const MetricsRow&) {}
  /// All observers have written a row of the last steps.
  virtual void on_log(Trainer&, const MetricsRow&) {}
  /// After each batch of an evaluation.
  virtual void on_evaluation_batch(Trainer&, const ProgressState&) {}
  /// An evaluation is over ("val", and "test" at the end), its row is written, and the best
  /// checkpoint is saved. With an EMA the model holds the averages meanwhile.
  virtual void on_evaluation(Trainer&, const MetricsRow&) {}
  /// The epoch has ended, and what it saved is on the disk. This may be some steps later.
  virtual void on_epoch(Trainer&, const EpochReport&) {}
  /// Before the state is saved as `name`: "last" or "best".
  virtual void on_save(Trainer&, std::string_view /*name*/) {}
  /// Training is over, all is saved. What follows is the evaluation of the test batches. Not called
  /// for a training that pauses.
  virtual void on_trained(Trainer&, End) {}
  /// fit() returns this result next.
  virtual void on_end(Trainer&, const FitResult&) {}
  /// Something that people should know. Called also while an error is handled.
  virtual void on_message(Trainer&, MessageKind, std::string_view /*text*/) {}
};

}  // namespace lathe::train
