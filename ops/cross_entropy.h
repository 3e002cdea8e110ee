// Cross-entropy of class scores: softmax, logarithm and choice in one op.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/class_targets.h"
#include "lathe/ops/loss_reduction.h"

namespace lathe {

struct CrossEntropyOptions {
  Tensor weight = {};            // [C], one number per class, not differentiated; undefined: all 1
  int64_t ignore_index = -100;   // targets with this number count for nothing
  double label_smoothing = 0.0;  // e in [0, 1]: part of the target spread evenly over all classes
  Reduction reduction = Reduction::kMean;
};

/// Targets are class numbers, or floating: a probability for each class.
/// loss_i = (1-e) * w[y_i] * -logp[i, y_i] + e/C * sum over c of w_c * -logp[i, c],  logp =
/// log_softmax(x, 1)
///   x  [N,C], [N,C,d1,…] or [C]     target  integers [N], [N,d1,…] or []; floating: x's shape
///   →  kMean: sum of the losses / sum of w[y_i] over the targets that are not ignored (NaN if
///   there are none);
///      kSum: their sum;  kNone: the losses, target's shape, 0 where ignored.
/// With probabilities t: loss_i = sum over c of w_c * ((1-e) * t[i,c] + e/C) * -logp[i,c]; kMean
/// divides their sum by their number, and nothing can be ignored (ignore_index below 0).
/// dtypes: f16, bf16, f32, f64, of x and t the wider; computed in f32 or wider.
/// grad: x, and t (twice): for kMean without weights (softmax - onehot) / count; exactly 0 where
/// ignored. amp: float. throws: IndexError naming a target outside [0, C), ValueError
/// (label_smoothing, ignore_index), ShapeError, DTypeError, DeviceError. ref: smoothing: Szegedy et
/// al. 2016 (arXiv:1512.00567).
LATHE_API Tensor cross_entropy(const Tensor& x, const Tensor& target,
                               const CrossEntropyOptions& options = {});

/// Per row (per target), in loss_dtype(x) and with the target's shape.
struct CrossEntropyRows {
  Tensor loss;
  Tensor weight;            // w[y_i]; 0 where ignored
  Tensor largest, log_sum;  // m = max of the scores, log(sum exp(x - m)): what the gradient needs
};

namespace cpu {
/// Fills `rows` from the contiguous x; `smoothing` is e.
void cross_entropy_forward(const CrossEntropyRows& rows, const Tensor& x,
                           const ClassTargets& targets, double smoothing);
/// dx from the gradient g of each row's loss: 0 where ignored, whatever g is.
void cross_entropy_backward(const Tensor& dx, const Tensor& g, const CrossEntropyRows& rows,
                            const Tensor& x, const ClassTargets& targets, double smoothing);
}  // namespace cpu
namespace cuda {
void cross_entropy_forward(const CrossEntropyRows& rows, const Tensor& x,
                           const ClassTargets& targets, double smoothing);
void cross_entropy_backward(const Tensor& dx, const Tensor& g, const CrossEntropyRows& rows,
                            const Tensor& x, const ClassTargets& targets, double smoothing);
}  // namespace cuda

}  // namespace lathe
