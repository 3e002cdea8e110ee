// Tally: what scores and labels add up to.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::cli {

/// Sums over batches: loss, hits, and (if asked for) which class was taken for which.
class Tally {
 public:
  /// `classes` > 0 keeps the confusion matrix.
  explicit Tally(int64_t classes = 0)
      : classes_(classes), confusion_(static_cast<size_t>(classes * classes)) {}

  /// `scores` f32 [N,C], `labels` i64 [N], `mean_loss` over the batch. Waits for the device.
  void add(const Tensor& scores, const Tensor& labels, double mean_loss);
  void clear() { *this = Tally(classes_); }

  int64_t count() const { return count_; }
  /// Means over all samples; 0 if there are none.
  double loss() const { return mean(loss_sum_); }
  double accuracy() const { return mean(static_cast<double>(top1_)); }
  /// The label is among the five best scores. Equal scores count against it, and so does nan.
  double top5() const { return mean(static_cast<double>(top5_)); }
  /// How often a sample of class `label` was taken for `predicted`.
  int64_t confusion(int64_t label, int64_t predicted) const {
    return confusion_[static_cast<size_t>(label * classes_ + predicted)];
  }

 private:
  double mean(double sum) const { return count_ > 0 ? sum / static_cast<double>(count_) : 0; }

  int64_t classes_;
  int64_t count_ = 0, top1_ = 0, top5_ = 0;
  double loss_sum_ = 0;
  std::vector<int64_t> confusion_;
};

}  // namespace lathe::cli
