// Losses of a prediction against a target of the same shape (losses.cpp, made of other ops).
//   x, y  any shapes that broadcast   →  0-d, or the broadcast shape for Reduction::kNone
// dtypes: f16, bf16, f32, f64; mixed ones go to the wider.   grad: x and y (twice).   amp: float.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/loss_reduction.h"

namespace lathe {

struct LossOptions {
  Reduction reduction = Reduction::kMean;
};

/// (x - y)^2.
LATHE_API Tensor mse_loss(const Tensor& x, const Tensor& y, const LossOptions& options = {});

/// |x - y|; gradient 0 where they are equal or NaN.
LATHE_API Tensor l1_loss(const Tensor& x, const Tensor& y, const LossOptions& options = {});

struct SmoothL1Options {
  double beta = 1.0;  // where the square turns into the line; 0: l1_loss
  Reduction reduction = Reduction::kMean;
};
/// With d = |x - y|: d^2 / (2 beta) below beta, d - beta / 2 from there on. The second derivative
/// is 1 / beta below beta and 0 from there on. The gradient at NaN is NaN.
/// throws: also ValueError for beta < 0.   ref: Girshick 2015 (arXiv:1504.08083).
LATHE_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& y,
                                const SmoothL1Options& options = {});

struct BceOptions {
  Tensor weight = {};      // factor of each loss; broadcasts; not differentiated
  Tensor pos_weight = {};  // factor of the positive part; broadcasts; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// -(pos_weight * y * log s(x) + (1 - y) * log(1 - s(x))), where s is the logistic function;
/// computed so that neither logarithm overflows. y is a probability and must have x's shape.
LATHE_API Tensor bce_with_logits(const Tensor& x, const Tensor& y, const BceOptions& options = {});

}  // namespace lathe
