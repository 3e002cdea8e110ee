// UpdateBatches: how much each batch counts in the gradient of an update that several of them make.
#pragma once

#include <cstdint>

#include "lathe/core/tensor.h"
#include "lathe/ops/binary.h"

namespace lathe::cli {

/// The batches since the last update. The gradient of an update is the mean over all their images,
/// like that of one batch which holds them all. The loss of a batch is the mean over its own
/// images. The last batch of an epoch can be smaller than the others, so its loss counts less.
class UpdateBatches {
 public:
  /// Takes the next batch, which has at least one image.
  void add(int64_t images) {
    if (count_ == 0) first_ = images;
    ++count_;
    last_ = images;
    images_ += images;
  }
  void clear() { *this = UpdateBatches(); }

  int64_t count() const { return count_; }
  /// How much the last batch counts. A batch as large as the first one counts 1.
  double weight() const { return static_cast<double>(last_) / static_cast<double>(first_); }
  /// Over all batches: count() if they have one size.
  double sum_of_weights() const {
    return static_cast<double>(images_) / static_cast<double>(first_);
  }
  /// The mean loss of the last batch times its weight. The gradients of an update's weighted losses
  /// add up to sum_of_weights() times the gradient of the update.
  Tensor weighted(const Tensor& loss) const { return last_ == first_ ? loss : loss * weight(); }

 private:
  int64_t count_ = 0, images_ = 0, first_ = 0, last_ = 0;
};

}  // namespace lathe::cli
