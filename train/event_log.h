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

/// Makes an observer that writes events for TensorBoard into the run folder: the rows of metrics,
/// and the distributions of parameters and gradients at each evaluation. Does nothing without a run
/// folder.
LATHE_API std::shared_ptr<Observer> tensorboard();

/// Writes metrics, parameters and gradients of a run as TensorBoard events. An error, such as a
/// full disk, does not end the training: the log warns once and writes nothing more.
class LATHE_API EventLog {
 public:
  /// Makes a new events file in `folder` for the steps after `step`. If a resumed run has older
  /// files with steps after `step`, TensorBoard ignores these steps of the older files.
  EventLog(const std::filesystem::path& folder, int64_t step,
           std::function<void(const std::string& text)> warn);

  /// Writes a row of metrics: "loss/train", "accuracy/train", "memory_peak_bytes/train", …. A row
  /// of training also has "lr", the samples per second (rate_column()) and "loss_scale".
  void add(const MetricsRow& metrics);
  /// Writes the distribution of each parameter. Waits for the device.
  void add(const nn::Module& model, int64_t step);
  /// Writes the distribution of each gradient, as "gradients/NAME". Waits for the device.
  void add_gradients(const nn::Module& model, int64_t step);

 private:
  template <class F>
  void attempt(F f);

  std::function<void(const std::string&)> warn_;
  std::optional<EventWriter> writer_;  // empty after an error
};

}  // namespace lathe::train
