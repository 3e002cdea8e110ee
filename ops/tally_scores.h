// Running totals of a classifier's scores over many batches, kept on the scores' device. A training
// loop waits for the device only when it reads the totals.
// tally_scores.cpp: checks; row_kernels/tally_scores_cpu.cpp, tally_scores_cuda.cu: kernels.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// Running totals on one device.
struct ScoreTally {
  Tensor loss_sum;   // f64 0-d: sum over batches of mean loss times number of samples
  Tensor counts;     // i64 [3]: samples, hits, hits among the five best
  Tensor confusion;  // i64 [C,C], [label, predicted]; undefined: not kept
};

/// A tally of zeros. If `classes` > 0, it keeps the confusion matrix.
LATHE_API ScoreTally make_score_tally(Device device, int64_t classes = 0);

/// Adds the hits and losses of a batch to the tally. Never waits for the device. All calls on one
/// tally must be on one stream.
///   scores     [N,C], C >= 1      labels  integers [N]
///   mean_loss  0-d; f32, or f64 for f64 scores
/// The prediction is the class with the highest score, and the first such class if several have it.
/// A NaN counts as the highest score, but is never a hit. A label is among the five best if fewer
/// than five other scores are at least as high as its own (ties count against it). A label outside
/// [0, C) is no hit and enters no cell of the confusion matrix.
/// dtypes: f16, bf16, f32, f64.   throws: ShapeError, DTypeError, DeviceError.
LATHE_API void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                             const Tensor& mean_loss);

namespace cpu {
void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                   const Tensor& mean_loss);
}  // namespace cpu
namespace cuda {
void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                   const Tensor& mean_loss);
}  // namespace cuda

}  // namespace lathe
