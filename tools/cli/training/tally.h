// Tally: sums over the scores and labels of batches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/core/state_dict.h"
#include "lathe/ops/tally_scores.h"

namespace lathe::cli {

/// Sums over batches: loss, hits, and optionally the confusion matrix. On a GPU the sums are kept
/// there, and the numbers here are those of the last read(). A copy has the same sums there.
class Tally {
 public:
  /// `classes` > 0 keeps the confusion matrix.
  explicit Tally(int64_t classes = 0)
      : classes_(classes), confusion_(static_cast<size_t>(classes * classes)) {}

  /// `scores` [N,C], `labels` integers [N], `mean_loss` the mean over the batch, 0-d. Does not wait
  /// for a GPU.
  void add(const Tensor& scores, const Tensor& labels, const Tensor& mean_loss);
  /// add() in two parts, for a graph (core/cuda_graph.h): what is recorded into it, and what the
  /// host notes after each launch.
  /// throws: StateError if nothing was added before, so that there are no sums yet.
  void record(const Tensor& scores, const Tensor& labels, const Tensor& mean_loss) const;
  void launched(int64_t samples) { count_ += samples; }
  /// Fetches the sums; waits for a GPU. On a CPU only confusion() needs this.
  void read();
  /// Adds the numbers of `other` as of its last read(), without its confusion matrix.
  void join(const Tally& other);
  /// On a GPU the sums keep their memory, and this queues what sets them to zero.
  void clear();

  /// All sums except the confusion matrix, so that adding continues bit by bit. Shares no memory.
  StateDict state_dict() const;
  /// Takes over such a state. Further scores come from `device`.
  /// throws: ValueError, ShapeError; nothing has changed then.
  void load_state_dict(const StateDict& state, Device device);

  /// The sums of the last read() without the confusion matrix, as numbers that can be added up over
  /// processes; and the tally that has such sums.
  std::vector<double> numbers() const;
  static Tally of_numbers(const std::vector<double>& numbers);

  /// Samples added, read or not.
  int64_t count() const { return count_; }
  /// Means over all samples that were read; 0 if there are none.
  double loss() const { return mean(read_.loss_sum); }
  double accuracy() const { return mean(static_cast<double>(read_.top1)); }
  /// How often the label is among the five best scores. Equal scores and nan count against it.
  double top5() const { return mean(static_cast<double>(read_.top5)); }
  /// How often a sample of class `label` was predicted to be `predicted`.
  int64_t confusion(int64_t label, int64_t predicted) const {
    return confusion_[static_cast<size_t>(label * classes_ + predicted)];
  }

 private:
  struct Numbers {
    int64_t count = 0, top1 = 0, top5 = 0;
    double loss_sum = 0;
  };

  void read_numbers();
  double mean(double sum) const {
    return read_.count > 0 ? sum / static_cast<double>(read_.count) : 0;
  }

  int64_t classes_;
  std::optional<ScoreTally> sums_;  // where the scores are
  int64_t count_ = 0;
  Numbers read_, joined_;
  std::vector<int64_t> confusion_;
};

}  // namespace lathe::cli
