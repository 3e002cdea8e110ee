// Training: a train::Trainer with the settings of the command, and the observers that show the
// training and write its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/optim/scheduler.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/train/trainer.h"

namespace lathe::cli {

/// The objects that a training works on. All of them must outlive it.
struct TrainingParts {
  const Settings& settings;
  nn::Module& model;
  optim::LRScheduler& schedule;  // its unit is a step; its optimiser is that of the training
  Input& train;                  // its device is where training computes
  Input& test;                   // evaluations read it, and so it chooses the best checkpoint
  const Output& out;
  Log& log;
  safetensors::Metadata about = {};  // metadata for the checkpoints
  Tuned tuned = {};
  Input* held_out = nullptr;  // evaluated once, at the end, with the weights of best.safetensors
  // Called after each step, with the steps so far; false: the training pauses there, as after
  // --stop-after.
  std::function<bool(int64_t step)> after_step = {};
  // Those that train together, each with its share of `train` and `test`. The first one writes the
  // run folder.
  const Ranks& ranks = Ranks::one();
  bool is_trial = false;  // it writes and shows nothing but its last checkpoint
  // Further observers. They are called after the one that writes the metrics files, and before the
  // Screen.
  std::vector<std::shared_ptr<train::Observer>> observers = {};
};

class Training {
 public:
  /// `total_steps`: the steps of the whole run, including those before a resume.
  Training(TrainingParts&& parts, int64_t total_steps);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  train::Trainer& trainer() { return trainer_; }

  /// Trains, in the folder of Trainer::use_folder(). While a StopRequests exists, a signal asks the
  /// training to stop.
  /// → kDone, or the code of the signal that stopped the training
  /// throws: CommandError with the code
  ///   - kDiverged if the training diverged;
  ///   - kData if a sample cannot be read;
  ///   - kError if the run folder cannot be written;
  ///   - kCheckFailed if --target-acc was missed.
  /// Other errors pass through unchanged.
  ExitCode run();

 private:
  void add_observers();
  ExitCode end(const train::FitResult& result) const;

  const Settings& settings_;
  TrainingParts parts_;
  std::unique_ptr<train::Batches> train_, test_;
  std::unique_ptr<train::Batches> held_out_;  // null: there are none
  BrokenFiles broken_;
  train::Trainer trainer_;
};

}  // namespace lathe::cli
