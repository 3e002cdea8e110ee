// Negative log-likelihood of given log-probabilities (nll_loss.cpp). From scores:
// ops/losses/cross_entropy.h.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/class_targets.h"
#include "lathe/ops/losses/loss_reduction.h"

namespace lathe {

struct NllLossOptions {
  Tensor weight = {};           // [C], one number per class, not differentiated; undefined: all 1
  int64_t ignore_index = -100;  // targets with this number count for nothing
  Reduction reduction = Reduction::kMean;
};

/// loss_i = -w[y_i] * logp[i, y_i].
///   logp  [N,C], [N,C,d1,…] or [C]     target  integers [N], [N,d1,…] or []
///   →  [] or, with kNone, a loss per target; options as in cross_entropy (class numbers)
/// dtypes: as cross_entropy.   grad: logp, twice differentiable.   amp: float.
/// throws: as cross_entropy.
LATHE_API Tensor nll_loss(const Tensor& logp, const Tensor& target,
                          const NllLossOptions& options = {});

namespace cpu {
/// Writes loss and weight (w[y_i], 0 where ignored), both in loss_dtype(logp) and the target's
/// shape. logp is contiguous.
void nll_loss_forward(const Tensor& loss, const Tensor& weight, const Tensor& logp,
                      const ClassTargets& targets);
/// Writes every element of dlogp, from g, the gradient of each loss.
void nll_loss_backward(const Tensor& dlogp, const Tensor& g, const ClassTargets& targets);
}  // namespace cpu
namespace cuda {
void nll_loss_forward(const Tensor& loss, const Tensor& weight, const Tensor& logp,
                      const ClassTargets& targets);
void nll_loss_backward(const Tensor& dlogp, const Tensor& g, const ClassTargets& targets);
}  // namespace cuda

}  // namespace lathe
