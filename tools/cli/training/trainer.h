// Trainer: the loop of `lathe train`. What it needs is made by train.cpp; what it leaves is in the
// run folder. It ends in one of these ways, always with last.safetensors written:
//   the epochs, --max-steps or --time-limit are over: evaluated, exit code 0 (or 7, --target-acc);
//     at the --time-limit what is saved is the state before that evaluation; 6 if --amp fp16 has
//     skipped every step
//   SIGINT, SIGTERM, SIGHUP: after the step in hand, exit code 130, 143 or 129
//   --stop-after: so too, exit code 0
//   a loss that is not finite, or a loss scale below its floor: exit code 6; what is saved is the
//     last state known to be good, its own loss included: one saved later may have led there
//   any error (stdout closed): the error's exit code; a sample that cannot be read, for whatever
//     reason: 3. What is saved is the state then; if it is not known to be good, or a GPU that has
//     failed does not give it any more, the last state known to be good. One that was saved later
//     stays if it is only the GPU that has failed, and every loss before it was finite
// Only a folder that cannot be written leaves less, and then the old file is still whole. What is
// saved is a checkpoint: resume() goes on from it, bit by bit. trainer_state.cpp holds that part.
// Host memory: four copies of the state (Snapshot) at most, two here and two of CheckpointWriter;
// while one is written, one tensor of it at a time lies there once more, row-major.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/scheduler.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/checkpoint_writer.h"
#include "lathe/tools/cli/training/evaluate.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/run_folder.h"

namespace lathe::cli {

/// What a training works on; everything outlives the Trainer.
struct TrainingParts {
  const Settings& settings;
  nn::Module& model;
  optim::LRScheduler& schedule;  // its unit is a step; its optimiser is the one that is stepped
  Input& train;                  // its device is where training computes
  Input& test;
  const Output& out;
  Log& log;
  safetensors::Metadata about = {};  // for the checkpoints
};

class Trainer {
 public:
  Trainer(const TrainingParts& parts, int64_t total_steps);
  ~Trainer() { parts_.log.before_line({}); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Goes on where a checkpoint was made, with the hyper-parameters of the settings here; `name`
  /// stands for it in messages. Unless the batches are still the same, an epoch that it had begun
  /// begins again. Call before open().   → the step
  /// throws: ValueError listing what does not fit, and then nothing has changed.
  int64_t resume(const Checkpoint& from, const std::string& name, bool same_batches);
  /// The parts of a checkpoint ("model", "optimizer", …) that resume() cannot take. The others are
  /// those of the checkpoint then: for the message, not to train on.
  std::vector<std::string> misfits(const Checkpoint& from);

  /// The run folder; nothing is written before. `goes_on`: it holds the metrics of the run already.
  /// throws: FileError.
  void open(const std::filesystem::path& folder, bool goes_on);
  /// After resume() and open(), when last.safetensors is the checkpoint that was resumed: cuts the
  /// metrics back to its step. `accuracy_of_best`: of what best.safetensors holds now, -1 for none.
  /// Going back may have removed it, and the state before it is gone: then the next evaluation
  /// begins anew.
  /// throws: FileError.
  void go_back(double accuracy_of_best);

  /// After open(). A signal asks it to stop while StopRequests live.
  ExitCode run();

  /// Position, best result and running sums: a part of the checkpoint beside model and optimiser.
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
  void update();
  void update_scale();
  void after_step();
  void evaluate_now();
  void end_epoch();
  void say_saved();
  void write_window();
  void show_progress();
  [[noreturn]] void fail_diverged(const char* split, double loss);
  CheckpointParts checkpoint_parts();
  Checkpoint checkpoint();
  void write(const char* name, const Checkpoint& checkpoint, int64_t step);
  void save(const char* name);
  void save_to_go_on();
  int64_t save_good();
  void wait_for_writer();
  bool window_is_finite();
  bool save_if_good();
  void save_after_error();
  ExitCode finish();
  ExitCode pause();
  Stop stop_reason() const;
  bool pauses() const;
  bool evaluates_after(int64_t epoch) const;
  double seconds() const;
  double data_wait() const;  // the part of the time in training that it waited for batches
  double save_wait() const;  // the part of all its time in save() and wait_for_writer()

  const Settings& settings_;
  TrainingParts parts_;
  optim::Optimizer& optimizer_;
  optim::GradScaler scaler_;       // of --amp fp16; disabled otherwise
  std::optional<optim::EMA> ema_;  // of --ema
  Tensors parameters_;
  std::filesystem::path folder_;  // empty before open(), as are these two:
  std::optional<MetricsFiles> metrics_;
  std::optional<CheckpointWriter> writer_;
  Progress progress_;
  BrokenFiles broken_;
  const int64_t total_steps_;

  int64_t epoch_ = 0, step_ = 0;
  int64_t batch_ = 0;          // of the epoch; those that an update has seen
  bool epoch_open_ = false;    // the epoch has begun and not ended
  int64_t micro_batches_ = 0;  // since the last update
  bool inside_step_ = false;   // a batch has been seen that no update has
  int64_t resumed_step_ = 0, resumed_rows_ = 0, skipped_before_ = 0;  // of the run so far
  Tally window_, epoch_tally_;
  int64_t window_images_ = 0;  // of window_, in window_seconds_: those before a resume took others
  double window_seconds_ = 0, train_seconds_ = 0, evaluation_seconds_ = 0;
  double save_seconds_ = 0;
  double last_lr_ = 0;
  Clock::time_point began_ = Clock::now(), batch_began_ = Clock::now();

  Snapshot good_;       // the last state whose loss is known to be finite; of a new run, its first
  Snapshot candidate_;  // the next good_, if its loss turns out to be finite
  int64_t good_step_ = 0;
  int64_t finite_until_ = 0;      // losses of the steps before this one are known to be finite
  int64_t saved_good_step_ = -1;  // of last.safetensors; -1: not known to be good
  bool has_last_ = false;         // last.safetensors is there, or the writer has it
  bool saved_to_go_on_ = false;   // last.safetensors is not to be written any more
  bool evaluated_ = false;        // since the last update
  double best_accuracy_ = -1, last_accuracy_ = 0, last_loss_ = 0;
  int64_t best_epoch_ = 0;
  double kept_accuracy_ = -1;  // of best.safetensors: best_accuracy_, or less after going back
  std::string saved_;          // "last, best", for the epoch's line
  std::string epoch_line_;     // to be said when the writer holds that many saves
  size_t epoch_saves_ = 0;
};

}  // namespace lathe::cli
