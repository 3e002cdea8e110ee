// Trainer: the loop of `lathe train`. What it needs is made by train.cpp; what it leaves is in the
// run folder. It ends in one of these ways, always with last.safetensors written:
//   the epochs, --max-steps or --time-limit are over: evaluated, exit code 0 (or 7, --target-acc)
//   SIGINT, SIGTERM: after the step in hand, exit code 130 or 143
//   a loss that is not finite, or a loss scale below its floor: exit code 6; what is saved is the
//     last state known to be good
//   any error (stdout closed): the error's exit code; a sample that cannot be read, for whatever
//     reason: 3
// Only a folder that cannot be written leaves less, and then the old file is still whole.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "lathe/data/data_loader.h"
#include "lathe/nn/module.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/scheduler.h"
#include "lathe/tools/cli/evaluate.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/run_folder.h"

namespace lathe::cli {

/// Of --amp and --loss-scale.   throws: UsageError.
optim::GradScalerOptions scaler_options(const Settings& settings);

/// What a training works on; everything outlives the Trainer.
struct TrainingParts {
  const Settings& settings;
  Device device;
  nn::Module& model;
  optim::LRScheduler& schedule;  // its unit is a step; its optimiser is the one that is stepped
  data::DataLoader& train_loader;
  data::DataLoader& test_loader;
  std::filesystem::path folder;
  const Output& out;
  Log& log;
};

class Trainer {
 public:
  Trainer(const TrainingParts& parts, int64_t total_steps);
  ~Trainer() { parts_.log.before_line({}); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  ExitCode run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stop { kNo, kSteps, kTime, kSignal };

  void train_epoch();
  void step_batch(const Tensor& x, const Tensor& y);
  void update();
  void update_scale();
  void evaluate_now();
  void end_epoch();
  void write_window();
  void show_progress();
  [[noreturn]] void fail_diverged(const char* split, double loss);
  void write_weights(const char* name, const StateDict& state, int64_t epoch, int64_t step) const;
  void save(const char* name);
  bool window_is_finite();
  void save_after_error();
  ExitCode finish();
  ExitCode stop_for_signal();
  Stop stop_reason() const;
  bool evaluates_after(int64_t epoch) const;
  double seconds() const;

  const Settings& settings_;
  TrainingParts parts_;
  optim::Optimizer& optimizer_;
  optim::GradScaler scaler_;  // of --amp fp16; disabled otherwise
  Tensors parameters_;
  MetricsFiles metrics_;
  Progress progress_;
  const int64_t total_steps_;

  int64_t epoch_ = 0, step_ = 0;
  int64_t micro_batches_ = 0;  // since the last update
  Tally window_, epoch_tally_;
  double window_seconds_ = 0, train_seconds_ = 0, evaluation_seconds_ = 0;
  double last_lr_ = 0;
  Clock::time_point began_ = Clock::now(), batch_began_ = Clock::now();

  struct {
    StateDict state;
    int64_t epoch = 0, step = 0;
  } good_;                  // parameters that gave a finite loss
  bool evaluated_ = false;  // since the last update
  double best_accuracy_ = -1, last_accuracy_ = 0, last_loss_ = 0;
  int64_t best_epoch_ = 0;
  std::string saved_;  // "last, best", for the epoch's line
};

}  // namespace lathe::cli
