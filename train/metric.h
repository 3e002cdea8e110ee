// Metrics: numbers about a model that add up over batches, on the device of the batches.
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

/// Which values of a metric are the better ones.
enum class Better { kHigher, kLower };

/// A metric is made of sums: numbers of each batch whose totals decide its value. So it can be
/// added up over batches and over ranks. The totals are f64, on the device of the first batch.
class LATHE_API Metric {
 public:
  /// The numbers of a batch, [k] or 0-d, any floating dtype. Device work only: it may be captured
  /// into a graph. It runs without gradients.
  using Sums = std::function<Tensor(const Result& result)>;
  /// The value from the totals, k numbers.
  using Value = std::function<double(std::span<const double> totals)>;

  /// The name heads columns and keys: letters, digits and _-./@.
  /// throws: ValueError for another name, or an empty function.
  Metric(std::string name, Sums sums, Value value, Better better = Better::kHigher);

  const std::string& name() const { return name_; }
  Better better() const { return better_; }

  /// Adds a batch. Never waits for a GPU. May be captured into a graph, whose launches then add
  /// their batches: after at least one call that was not.
  /// throws: StateError for a first call within a capture; ShapeError if the sums have another size
  /// than before; what the function of the sums throws.
  void add(const Result& result);
  /// The value over all batches since clear(); NaN if there were none. Waits for a GPU.
  double value() const;
  /// The value that these totals have, as those of all ranks.
  double value_of(std::span<const double> totals) const { return value_(totals); }
  /// Sets the totals to zero. They keep their memory.
  void clear();

  /// f64 [k]; undefined before the first batch. Shares memory with the metric.
  const Tensor& totals() const { return totals_; }
  /// "totals", unless nothing was added. Shares no memory.
  StateDict state_dict() const;
  /// Takes over such a state; further batches come from `device`.
  /// throws: ValueError, DTypeError; nothing has changed then.
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

/// The mean over samples of a number per batch: `of_batch` returns the mean over the batch's
/// samples, 0-d. Batches count by their samples (Result::samples). A mean is an error unless
/// `better` says otherwise: the lower, the better.
LATHE_API Metric mean(std::string name, std::function<Tensor(const Result&)> of_batch,
                      Better better = Better::kLower);
/// The mean loss, "loss".
LATHE_API Metric mean_loss();
/// exp(mean loss), "perplexity". The loss is a mean negative log-likelihood in nats.
LATHE_API Metric perplexity();

/// How often the best of the scores `output` [N,C,…] is the class `target` [N,…], from 0 to 1;
/// "accuracy". Targets below 0, as ignore_index, do not count. The first of equal scores is the
/// best.
LATHE_API Metric accuracy();
/// How often the class is among the k best scores; "top5" for k = 5.
/// throws: ValueError unless k is at least 1.
LATHE_API Metric top_k(int64_t k);
/// Intersection over union of each class, averaged over the classes that occur; "iou". Output and
/// target as for accuracy(). Targets outside [0, classes) do not count.
/// throws: ValueError unless there is at least one class.
/// ref: Everingham et al. 2015 (doi:10.1007/s11263-014-0733-5), "segmentation accuracy".
LATHE_API Metric mean_iou(int64_t classes);

}  // namespace lathe::train
