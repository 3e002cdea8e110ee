// Metrics: numbers about a model that are added up over batches, on the device of the batches.
//
//   train::Metric error = train::mean("error", [](const train::Result& r) {
//     return abs(r.output - r.target).mean();
//   });
//   for (auto& [x, y] : loader) error.add(step({x, y}));
//   std::cout << error.value();
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// Whether higher or lower values of a metric are better.
enum class Better { kHigher, kLower };

/// A metric whose value is computed from totals. Each batch gives k numbers; the k totals are the
/// sums of these numbers over batches and ranks. The totals are f64, on the device of the first
/// batch.
class LATHE_API Metric {
 public:
  /// A function that computes the k numbers of a batch: a tensor [k] or 0-d, of any floating dtype.
  /// The function runs without gradients. It may be captured into a CUDA graph, so it must not wait
  /// for the device.
  using Sums = std::function<Tensor(const Result& result)>;
  /// Computes the metric's value from the k totals.
  using Value = std::function<double(std::span<const double> totals)>;

  /// `name` is used for columns and keys. It consists of letters, digits and _-./@.
  /// throws: ValueError for a name with other characters, or an empty function.
  Metric(std::string name, Sums sums, Value value, Better better = Better::kHigher);

  const std::string& name() const { return name_; }
  Better better() const { return better_; }

  /// Adds a batch to the metric's totals. Never waits for the device. add() may be captured into a
  /// CUDA graph, and then each launch adds a batch. The first call must not be captured.
  /// throws: StateError if the first call is captured; ShapeError if the batch gives another number
  /// of sums than the batches before; what Sums throws.
  void add(const Result& result);
  /// The value over all batches since clear(); NaN without batches. Waits for the device.
  double value() const;
  /// The value computed from other totals, for instance from the sums over all ranks.
  double value_of(std::span<const double> totals) const { return value_(totals); }
  /// Sets the totals to 0. They stay in the same memory.
  void clear();

  /// The totals, f64 [k]; undefined before the first batch. They share memory with the metric.
  const Tensor& totals() const { return totals_; }
  /// The entry "totals" as a copy; no entry if no batch was added.
  StateDict state_dict() const;
  /// Loads the state_dict() of a metric of the same kind. The totals are then on `device`, and all
  /// further batches must be there, too.
  /// throws: ValueError, DTypeError unless `state` is from a metric of the same kind. Nothing has
  /// changed then.
  void load_state_dict(const StateDict& state, Device device);

 private:
  friend Metric accuracy();
  friend class Trainer;

  std::string name_;
  bool is_accuracy_ = false;  // that of the library, which a Trainer may count in another way
  Sums sums_;
  Value value_;
  Better better_;
  Tensor totals_;
};

/// The mean of a number over all samples. `of_batch` returns the mean over a batch's samples, 0-d.
/// Each batch counts with its number of samples (Result::samples). By default lower values are
/// better, as for an error.
LATHE_API Metric mean(std::string name, std::function<Tensor(const Result&)> of_batch,
                      Better better = Better::kLower);
/// The mean loss, "loss".
LATHE_API Metric mean_loss();
/// exp(mean loss), "perplexity". The loss is a mean negative log-likelihood in nats.
LATHE_API Metric perplexity();

/// "accuracy": the share of targets, from 0 to 1, whose class has the highest score. Scores are
/// `output` [N,C,…], targets `target` [N,…]. Targets below 0, like ignore_index, do not count. If
/// scores are equal, the first one counts as the highest.
LATHE_API Metric accuracy();
/// "top5" for k = 5: the share of targets whose class is among the k highest scores.
/// throws: ValueError unless k is at least 1.
LATHE_API Metric top_k(int64_t k);
/// "iou": intersection over union of each class, averaged over the classes that occur. `output` and
/// `target` are as in accuracy(). Targets outside [0, classes) do not count.
/// throws: ValueError unless there is at least one class.
/// ref: Everingham et al. 2015 (doi:10.1007/s11263-014-0733-5), "segmentation accuracy".
LATHE_API Metric mean_iou(int64_t classes);

}  // namespace lathe::train
