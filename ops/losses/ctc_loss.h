// The loss of sequences whose labels have no positions (ctc_loss.cpp, made of other ops).
#pragma once

#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/loss_reduction.h"

namespace lathe {

struct CtcOptions {
  int64_t blank = 0;  // the class that stands for no label
  Reduction reduction = Reduction::kMean;
  bool zero_infinity = false;  // true: an infinite loss (a target too long for its input) becomes 0
};
/// Connectionist temporal classification: minus the log-probability that the sequence, with
/// repetitions and then blanks taken out, is the target.
///   logp            [T,N,C], log-probabilities of the classes at each step, or [T,C] of one
///                   sequence
///   targets         [N,S], or [sum of target_lengths], one after another; class numbers, without
///                   the blank
///   input_lengths   [N], at most T: the steps of each sequence that count
///   target_lengths  [N], at most S
///   →               0-d, or [N] for Reduction::kNone (0-d for one sequence)
/// kMean divides each loss by its target's length (at least 1) before it takes the mean.
/// dtypes: floats; half types are computed in f32; targets i64 or i32.
/// grad: logp, twice differentiable. PyTorch's gradient of logp differs. If logp comes from a
/// log_softmax, the gradients of the log_softmax's input agree.
/// amp: float.
/// throws: ShapeError, DTypeError, DeviceError; ValueError for lengths or a blank out of range;
/// IndexError for a class out of range.
/// ref: Graves et al. 2006, doi:10.1145/1143844.1143891.
LATHE_API Tensor ctc_loss(const Tensor& logp, const Tensor& targets,
                          const std::vector<int64_t>& input_lengths,
                          const std::vector<int64_t>& target_lengths,
                          const CtcOptions& options = {});

}  // namespace lathe
