// Accumulation: how much each batch counts in an update that several batches make.
#pragma once

#include <cstdint>

#include "lathe/core/tensor.h"
#include "lathe/ops/binary.h"

namespace lathe::train {

/// The batches since the last update. The gradient of an update is the mean over the samples of all
/// its batches, like that of one batch which holds them all. The loss of a batch is the mean over
/// its own samples. A smaller batch, such as the last one of an epoch, counts less.
class Accumulation {
 public:
  /// Takes the next batch, which has at least one sample.
  void add(int64_t samples) {
    if (count_ == 0) first_ = samples;
    ++count_;
    last_ = samples;
    samples_ += samples;
  }
  void clear() { *this = Accumulation(); }

  /// Batches since the last update, and samples in them.
  int64_t count() const { return count_; }
  int64_t samples() const { return samples_; }
  /// How much the last batch counts. A batch as large as the first one counts 1.
  double weight() const { return static_cast<double>(last_) / static_cast<double>(first_); }
  /// Over all batches: count() if they have one size.
  double sum_of_weights() const {
    return static_cast<double>(samples_) / static_cast<double>(first_);
  }
  /// The mean loss of the last batch times its weight. The gradients of an update's weighted losses
  /// add up to sum_of_weights() times the gradient of the update.
  Tensor weighted(const Tensor& loss) const { return last_ == first_ ? loss : loss * weight(); }

 private:
  int64_t count_ = 0, samples_ = 0, first_ = 0, last_ = 0;
};

}  // namespace lathe::train
