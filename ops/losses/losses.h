// Losses of a prediction x against a target y (losses.cpp, made of other ops). Of two predictions
// against each other: ops/losses/margin_losses.h.
//   x, y  one shape, any; they do not broadcast   →  0-d, or that shape for Reduction::kNone
// dtypes: f16, bf16, f32, f64; mixed ones go to the wider.   grad: x and y (twice).   amp: float.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/loss_reduction.h"

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

struct HuberOptions {
  double delta = 1.0;  // where the square turns into the line
  Reduction reduction = Reduction::kMean;
};
/// With d = |x - y|: d^2 / 2 below delta, delta (d - delta / 2) from there on: delta times
/// smooth_l1_loss with beta = delta.
/// throws: also ValueError unless delta > 0.
LATHE_API Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options = {});

struct BceOptions {
  Tensor weight = {};      // factor of each loss; broadcasts; not differentiated
  Tensor pos_weight = {};  // factor of the positive part; broadcasts; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// -(pos_weight * y * log s(x) + (1 - y) * log(1 - s(x))), where s is the logistic function;
/// computed so that neither logarithm overflows. y is a probability.
LATHE_API Tensor bce_with_logits(const Tensor& x, const Tensor& y, const BceOptions& options = {});
/// PyTorch's name of bce_with_logits.
LATHE_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                                  const BceOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // factor of each loss; broadcasts; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// -(y log x + (1 - y) log(1 - x)) of probabilities x and y. A logarithm below -100 counts as -100,
/// and the gradient divides by no less than 1e-12. Where x comes from a sigmoid, bce_with_logits is
/// more exact. NaN in x gives NaN; on a GPU so does an x outside [0, 1], because checking it would
/// wait for the device.
/// throws: also, on a CPU, ValueError for an x outside [0, 1].
LATHE_API Tensor binary_cross_entropy(const Tensor& x, const Tensor& y,
                                      const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  bool log_target = false;  // true: y holds logarithms, as x does
  bool batch_mean = false;  // true: the sum divided by x's first size, in place of `reduction`
  Reduction reduction = Reduction::kMean;
};
/// y (log y - x), which is 0 where y = 0: the terms of the Kullback-Leibler divergence of the
/// distribution with logarithms x from y. batch_mean gives the divergence itself.
/// throws: also ShapeError for batch_mean of a 0-d x.
LATHE_API Tensor kl_div(const Tensor& x, const Tensor& y, const KlDivOptions& options = {});

struct PoissonNllOptions {
  bool log_input = true;  // false: x is the rate itself, and its logarithm that of x + eps
  bool full = false;      // true: with Stirling's y log y - y + log(2 pi y) / 2 where y > 1
  double eps = 1e-8;
  Reduction reduction = Reduction::kMean;
};
/// exp(x) - y x, the negative logarithm of the Poisson probability of y at rate exp(x), but for a
/// term of y alone.
LATHE_API Tensor poisson_nll_loss(const Tensor& x, const Tensor& y,
                                  const PoissonNllOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  // true: with log(2 pi) / 2
  double eps = 1e-6;  // the least variance
  Reduction reduction = Reduction::kMean;
};
/// (log v + (x - y)^2 / v) / 2, where v = max(var, eps): the negative logarithm of the normal
/// density of y.
///   var  x's shape, or 1 in place of its last size
/// grad: also var (twice); as PyTorch's, it passes below eps too.
/// throws: also ValueError unless eps > 0 and, on a CPU, for a negative variance.
LATHE_API Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& var,
                                   const GaussianNllOptions& options = {});

}  // namespace lathe
