// Events for TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/data/tensorboard.h"
#include "lathe/nn/module.h"
#include "lathe/train/metrics_row.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// An observer that writes events for TensorBoard into the run folder: the rows of metrics, and the
/// distributions of parameters and gradients at each evaluation. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> tensorboard();

/// Metrics, parameters and gradients of a run as events in its folder. The training is more
/// important: if the disk is full, one warning says so, and nothing more is written.
class LATHE_API EventLog {
 public:
  /// Makes a file for the steps after `step`. Earlier files of the folder may hold later steps, of
  /// a part of the run that was cut back; TensorBoard then leaves them out.
  EventLog(const std::filesystem::path& folder, int64_t step,
           std::function<void(const std::string& text)> warn);

  /// A row of the metrics files: "loss/train", "accuracy/train", "memory_peak_bytes/train", …; of
  /// training also "lr", the rate (rate_column()) and "loss_scale".
  void add(const MetricsRow& metrics);
  /// The distribution of each parameter. Waits for a GPU.
  void add(const nn::Module& model, int64_t step);
  /// The distribution of each gradient, as "gradients/NAME". Waits for a GPU.
  void add_gradients(const nn::Module& model, int64_t step);

 private:
  template <class F>
  void attempt(F f);

  std::function<void(const std::string&)> warn_;
  std::optional<EventWriter> writer_;  // empty after an error
};

}  // namespace lathe::train
