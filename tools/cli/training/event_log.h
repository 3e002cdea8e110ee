// EventLog: what --tensorboard writes of a training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lathe/data/tensorboard.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/run_folder.h"

namespace lathe::cli {

/// Metrics, parameters and gradients of a run as events in its folder. The training is more
/// important: if the disk is full, one warning says so, and nothing more is written.
class EventLog {
 public:
  /// Makes a file for the steps after `step`. Earlier files of the folder may hold later steps, of
  /// a part of the run that was cut back; TensorBoard then leaves them out.
  EventLog(const std::filesystem::path& folder, int64_t step, Log& log);

  /// A row of the metrics files: "loss/train", "accuracy/train", "memory_peak_bytes/train", …; of
  /// training also "lr", "images_per_second" and "loss_scale".
  void add(const Metrics& metrics);
  /// The distribution of each parameter. Waits for a GPU.
  void add(const nn::Module& model, int64_t step);
  /// The distribution of each gradient, as "gradients/NAME". Waits for a GPU.
  void add_gradients(const nn::Module& model, int64_t step);

 private:
  template <class F>
  void attempt(F f);

  Log& log_;
  std::optional<EventWriter> writer_;  // empty after an error
};

}  // namespace lathe::cli
