// Reduction: how the losses of a batch become the result.
#pragma once

#include "lathe/ops/reduce.h"

namespace lathe {

enum class Reduction : uint8_t {
  kNone,  // one loss per element
  kMean,  // their mean; NaN if there are no losses
  kSum,
};

/// The mean or sum of `losses`, 0-d; `losses` itself for kNone.
/// grad: losses, twice differentiable.
inline Tensor reduce_losses(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::kMean: return mean(losses);
    case Reduction::kSum: return sum(losses);
    case Reduction::kNone: break;
  }
  return losses;
}

}  // namespace lathe
