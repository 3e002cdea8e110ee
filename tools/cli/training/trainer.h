// Trainer: the loop of `lathe train`. commands/train.cpp makes what it needs; it leaves its results
// in the run folder. A run always writes last.safetensors. It ends in one of these ways:
//   The epochs, --max-steps, --time-limit or the patience of --early-stopping are over: it
//     evaluates; exit code 0, 7 if --target-acc was missed, 6 if --amp fp16 has skipped every step.
//     At the --time-limit it saves the state before that evaluation.
//   SIGINT, SIGTERM, SIGHUP: after the present step; exit code 130, 143 or 129.
//   --stop-after: in the same way; exit code 0.
//   A loss is not finite, --detect-anomaly found a bad value, or the loss scale would fall below
//     its floor: exit code 6. It saves the last state known to be good, its own loss included,
//     because a later one may have led to the bad loss.
//   Any other error (stdout closed): the error's exit code; 3 for a sample that cannot be read. It
//     saves the present state; on a CPU it takes back a step that had begun. If that state is not
//     known to be good, or a failed GPU no longer gives it, it saves the last state known to be
//     good. A later one that was saved already is kept if only the GPU has failed and every loss
//     before it was finite.
//   Another rank has ended: the same, but only a state between two steps is saved. On GPUs that is
//     the last one known to be good: a reduction that has failed may have changed the present one.
// Only if the folder cannot be written is nothing saved; the old file is still complete then. What
// is saved is a checkpoint, from which resume() continues bit by bit (trainer_state.cpp).
// RunFolder decides what may overwrite what (train/run_folder.h).
// On a GPU it works on a stream of its own (compute_stream.h), where steps and evaluations are
// launched as CUDA graphs (train/step_capture.cpp).
// Several ranks do the same steps, each with its part of every batch. After the loss of each step
// they add up their losses and what they were asked for (trainer_ranks.cpp), so that all of them
// log, save, stop and fail after the same step, with the same numbers. That is before the update,
// unless a graph has made the update too.
// The peaks of the device's memory begin again with each row of metrics (run_memory.h).
// Host memory: at most four copies of the state (Snapshot), two in RunFolder and two in
// CheckpointWriter. While one is written, one tensor at a time exists once more, row-major. A GPU
// holds one more copy for some milliseconds in every 50 steps, where it has room for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/scheduler.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/evaluate.h"
#include "lathe/tools/cli/training/event_log.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/ranks.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/run_folder.h"
#include "lathe/tools/cli/training/run_memory.h"
#include "lathe/tools/cli/training/run_profile.h"
#include "lathe/tools/cli/training/step_undo.h"
#include "lathe/train/run_folder.h"
#include "lathe/train/step.h"

namespace lathe::cli {

/// What a training works on. Everything must outlive the Trainer.
struct TrainingParts {
  const Settings& settings;
  nn::Module& model;
  optim::LRScheduler& schedule;  // its unit is a step; Trainer steps its optimiser
  Input& train;                  // its device is where training computes
  Input& test;                   // what evaluations look at, and the best is chosen by
  const Output& out;
  Log& log;
  safetensors::Metadata about = {};  // metadata for the checkpoints
  Frozen frozen = {};
  Input* held_out = nullptr;  // evaluated once, at the end, with the weights of best.safetensors
  // Called after each step, with the steps so far; false: the training pauses there, as after
  // --stop-after.
  std::function<bool(int64_t step)> after_step = {};
  // Those that train together, each with its share of `train` and `test`. The first one writes the
  // run folder.
  const Ranks& ranks = Ranks::one();
  bool is_trial = false;  // its folder is gone afterwards: a signal says nothing about it
};

class Trainer {
 public:
  Trainer(const TrainingParts& parts, int64_t total_steps);
  ~Trainer() { parts_.log.before_line({}); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Continues from a checkpoint, with the hyper-parameters of the present settings. Messages call
  /// it `name`. If the batches are not the same any more, an epoch that had begun starts again. If
  /// evaluations look at other images, what they found so far is forgotten: the next one is the
  /// best, also for --early-stopping and --scheduler plateau. Call before open().   → the step
  /// throws: ValueError listing what does not fit; then nothing has changed.
  int64_t resume(const Checkpoint& from, const std::string& name, const Unchanged& same);
  /// The parts of a checkpoint ("model", "optimizer", …) that resume() cannot take. The other parts
  /// have the checkpoint's state afterwards: use this for a message, not to train on.
  std::vector<std::string> misfits(const Checkpoint& from);

  /// Opens the run folder; nothing is written before. `goes_on`: it already has the run's metrics.
  /// throws: FileError.
  void open(const std::filesystem::path& folder, bool goes_on);
  /// Call after resume() and open() if last.safetensors is the checkpoint that was resumed: cuts
  /// the metrics back to its step. `accuracy_of_best` is the accuracy of the present
  /// best.safetensors, -1 if there is none. Going back may have removed a better one whose state is
  /// gone; then the next evaluation starts a new best.
  /// throws: FileError.
  void go_back(double accuracy_of_best);

  /// Call after open(). A signal asks it to stop while StopRequests exist.
  ExitCode run();

  /// Bytes that tensors held at most on the training's device since this was made.
  int64_t memory_peak() const { return memory_.peak(); }
  /// Whether run() has written best.safetensors.
  bool has_saved_best() const { return saves_->has_saved_best(); }

  /// Position, best result and running sums: a part of the checkpoint besides model and optimiser.
  StateDict state_dict() const;
  /// throws: ValueError, ShapeError; nothing has changed then.
  void load_state_dict(const StateDict& state);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stop { kNo, kSteps, kTime, kPause, kSignal };

  void announce();
  void begin_epoch();
  void train_epoch();
  void train_batches();
  void step_batch(const Tensor& x, const Tensor& y);
  bool is_last_batch() const;
  void backward_on_ranks(const train::Result& result);
  std::vector<double> agree(RankSums sums);
  RankSums begin_to_agree(const Tally& tally, bool complete);
  Evaluation evaluate_on(Input& input, bool may_launch);
  std::pair<bool, Checkpoint> chosen_weights();
  void meet_over_gpus() const;
  bool take_save_request();
  bool captures_steps() const;
  void say_not_recorded(const char* what);
  train::Result forward(const Tensors& batch, const train::LossFunction& loss);
  bool logs_gradients() const;
  void log_gradients();
  void update();
  void after_step();
  void evaluate_now();
  bool stops_early() const;
  void end_epoch();
  void say_saved();
  Row add_row(Metrics metrics);
  void write_window();
  void show_progress();
  [[noreturn]] void fail_diverged(const char* split, double loss);
  [[noreturn]] void end_at_good_state(const std::string& why, bool all_ranks_know = false);
  CheckpointParts checkpoint_parts();
  Checkpoint checkpoint();
  void save(const char* name);
  void save_to_go_on();
  bool window_is_finite();
  bool save_if_good();
  void save_after_error();
  std::optional<Evaluation> evaluate_best();
  void print_result(const std::optional<Evaluation>& held_out);
  ExitCode finish();
  ExitCode pause();
  int signal() const;
  Stop stop_reason() const;
  bool pauses() const;
  int64_t steps_to_make() const;
  bool evaluates_after(int64_t epoch) const;
  optim::GradScaler& scaler() const { return train_step_->scaler(); }
  bool on_ranks() const { return !parts_.ranks.alone(); }
  double seconds() const;
  double data_wait() const;  // part of the training time spent waiting for batches
  double save_wait() const;  // part of the whole time spent in RunFolder

  const Settings& settings_;
  TrainingParts parts_;
  optim::Optimizer& optimizer_;
  std::optional<optim::EMA> ema_;  // for --ema
  std::unique_ptr<train::Step> train_step_;
  std::filesystem::path folder_;  // empty before open(), as are the next two
  std::optional<MetricsFiles> metrics_;
  std::optional<EventLog> events_;         // for --tensorboard
  std::optional<train::RunFolder> saves_;  // which state is good, and what may overwrite what
  std::optional<RunProfile> profile_;      // with --profile, while run() trains
  RunMemory memory_;
  Progress progress_;
  BrokenFiles broken_;
  const int64_t total_steps_;

  int64_t epoch_ = 0, step_ = 0;
  int64_t batch_ = 0;           // batches of the epoch that an update has used
  bool epoch_open_ = false;     // the epoch has begun and not ended
  bool inside_step_ = false;    // a batch is in use, or the sums of a row: no state to go on from
  StepUndo undo_;               // of that step, on a CPU
  bool told_to_pause_ = false;  // by after_step
  struct Requests {
    int signal = 0;
    bool save = false, time_is_over = false;
  } agreed_;  // on several ranks: what any of them was asked for; the time is that of the first
  int64_t resumed_step_ = 0, resumed_rows_ = 0, skipped_before_ = 0;  // of the run before resume()
  Tally window_, epoch_tally_;
  Tally evaluation_;           // what evaluations that are launched add to
  int64_t window_images_ = 0;  // of window_, in window_seconds_; without those before a resume
  double window_seconds_ = 0, train_seconds_ = 0, evaluation_seconds_ = 0;
  double last_lr_ = 0;
  Clock::time_point began_ = Clock::now(), batch_began_ = Clock::now();

  bool evaluated_ = false;  // since the last update
  double best_accuracy_ = -1, last_accuracy_ = 0, last_loss_ = 0;
  int64_t best_epoch_ = 0;
  double kept_accuracy_ = -1;  // of best.safetensors: best_accuracy_, or less after going back
  std::string epoch_line_;     // logged once epoch_saves_ saves are on the disk
  size_t epoch_saves_ = 0;
};

}  // namespace lathe::cli
