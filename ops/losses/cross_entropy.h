// Cross-entropy of class scores: softmax, logarithm and choice of the class in one op.
// cross_entropy.cpp: checks and gradients; row_kernels/cross_entropy_cpu.cpp, _cuda.cu: kernels.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/class_targets.h"
#include "lathe/ops/losses/loss_reduction.h"

namespace lathe {

struct CrossEntropyOptions {
  Tensor weight = {};            // [C], one number per class, not differentiated; undefined: all 1
  int64_t ignore_index = -100;   // targets with this number count for nothing
  double label_smoothing = 0.0;  // e in [0, 1]: part of the target spread evenly over all classes
  Reduction reduction = Reduction::kMean;
};

/// The cross-entropy of scores x and targets: class numbers (integers) or a probability for each
/// class (floating).
/// Class numbers y, with e = label_smoothing, w = weight and logp = log_softmax(x, 1):
///   loss_i = (1-e) * w[y_i] * -logp[i, y_i] + e/C * sum over c of w_c * -logp[i, c]
/// Probabilities t:
///   loss_i = sum over c of w_c * ((1-e) * t[i,c] + e/C) * -logp[i,c]
///   x  [N,C], [N,C,d1,…] or [C]     target  integers [N], [N,d1,…] or []; floating: x's shape
///   →  kMean: sum of the losses / sum of w[y_i] over the targets that are not ignored (NaN if
///             there are none); for probabilities, sum of the losses / their number
///      kSum:  sum of the losses
///      kNone: the losses, one per target; 0 where ignored
/// Targets that are probabilities cannot be ignored: with them, ignore_index must be below 0.
/// dtypes: f16, bf16, f32, f64. The result has the wider dtype of x and t; computed in f32 or
/// wider.
/// grad: x and t, twice differentiable; for kMean without weights dx = (softmax - onehot) / count;
/// 0 where ignored.
/// amp: float.
/// throws: IndexError naming a target that is neither in [0, C) nor ignore_index (on a GPU the next
/// call that waits for the device throws it); ValueError for label_smoothing outside [0, 1], or an
/// ignore_index of 0 or more with probabilities; ShapeError, DTypeError, DeviceError.
/// ref: smoothing: Szegedy et al. 2016 (arXiv:1512.00567).
LATHE_API Tensor cross_entropy(const Tensor& x, const Tensor& target,
                               const CrossEntropyOptions& options = {});

/// What the forward pass computes per row (per target), in loss_dtype(x) and the target's shape.
struct CrossEntropyRows {
  Tensor loss;
  Tensor weight;            // w[y_i]; 0 where ignored
  Tensor largest, log_sum;  // m = max of the scores, log(sum exp(x - m)): what the gradient needs
};

namespace cpu {
/// Fills `rows` from x, which is contiguous; `smoothing` is e.
void cross_entropy_forward(const CrossEntropyRows& rows, const Tensor& x,
                           const ClassTargets& targets, double smoothing);
/// Computes dx from g, the gradient of each row's loss. dx is 0 for ignored targets, whatever g is.
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
