// Losses of a prediction x against a target y. losses.cpp: made of other ops; losses_cpu.cpp: the
// CPU's kernel of smooth_l1_loss. Losses between two predictions: ops/losses/margin_losses.h.
//   x, y  any shape, both the same (no broadcasting)   →  0-d, or that shape for Reduction::kNone
// dtypes: f16, bf16, f32, f64; mixed ones give the wider.   grad: x and y, twice differentiable.
// amp: float.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/loss_reduction.h"

namespace lathe {

struct LossOptions {
  Reduction reduction = Reduction::kMean;
};

/// The squared error (x - y)^2.
LATHE_API Tensor mse_loss(const Tensor& x, const Tensor& y, const LossOptions& options = {});

/// The absolute error |x - y|. Its gradient is 0 where x = y, and where x or y is NaN.
LATHE_API Tensor l1_loss(const Tensor& x, const Tensor& y, const LossOptions& options = {});

struct SmoothL1Options {
  double beta = 1.0;  // where the square turns into the line; 0: l1_loss
  Reduction reduction = Reduction::kMean;
};
/// With d = |x - y|: d^2 / (2 beta) if d < beta, else d - beta / 2. The second derivative is
/// 1 / beta if d < beta, else 0. The gradient at NaN is NaN.
/// throws: ValueError for beta < 0; ShapeError, DTypeError, DeviceError.
/// ref: Girshick 2015 (arXiv:1504.08083).
LATHE_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& y,
                                const SmoothL1Options& options = {});

struct HuberOptions {
  double delta = 1.0;  // where the square turns into the line
  Reduction reduction = Reduction::kMean;
};
/// With d = |x - y|: d^2 / 2 if d < delta, else delta (d - delta / 2). Equals delta times
/// smooth_l1_loss with beta = delta.
/// throws: ValueError unless delta > 0; ShapeError, DTypeError, DeviceError.
LATHE_API Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options = {});

struct BceOptions {
  Tensor weight = {};      // factor of each loss; broadcasts; not differentiated
  Tensor pos_weight = {};  // factor of the positive part; broadcasts; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// -(pos_weight * y * log s(x) + (1 - y) * log(1 - s(x))), where s is the logistic function;
/// computed in a way that neither logarithm overflows. y must be a probability; this is not
/// checked.
LATHE_API Tensor bce_with_logits(const Tensor& x, const Tensor& y, const BceOptions& options = {});
/// PyTorch's name for bce_with_logits.
LATHE_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                                  const BceOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // factor of each loss; broadcasts; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// -(y log x + (1 - y) log(1 - x)) of probabilities x and y. If x comes from a sigmoid,
/// bce_with_logits is more exact.
///   - A logarithm below -100 counts as -100. The gradient divides by at least 1e-12.
///   - NaN in x gives NaN. On a GPU, an x outside [0, 1] gives NaN too: checking x would wait for
///     the device.
/// throws: on a CPU, ValueError for an x outside [0, 1]; ShapeError, DTypeError, DeviceError.
LATHE_API Tensor binary_cross_entropy(const Tensor& x, const Tensor& y,
                                      const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  bool log_target = false;  // true: y holds logarithms, as x does
  bool batch_mean = false;  // true: the sum divided by x's first size, in place of `reduction`
  Reduction reduction = Reduction::kMean;
};
/// The terms of the Kullback-Leibler divergence: y * (log y - x), or 0 where y = 0. x holds
/// log-probabilities; y holds probabilities, or log-probabilities with log_target. With batch_mean,
/// the result is the divergence averaged over the batch.
/// throws: ShapeError, also for batch_mean of a 0-d x; DTypeError, DeviceError.
LATHE_API Tensor kl_div(const Tensor& x, const Tensor& y, const KlDivOptions& options = {});

struct PoissonNllOptions {
  bool log_input = true;  // false: x is the rate; the loss is x - y log(x + eps)
  bool full = false;      // true: adds Stirling's y log y - y + log(2 pi y) / 2 where y > 1
  double eps = 1e-8;
  Reduction reduction = Reduction::kMean;
};
/// The negative log-likelihood of y under a Poisson distribution with rate exp(x): exp(x) - y x.
/// poisson_nll_loss leaves out the term that depends on y alone, unless options.full is set.
LATHE_API Tensor poisson_nll_loss(const Tensor& x, const Tensor& y,
                                  const PoissonNllOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  // true: adds log(2 pi) / 2
  double eps = 1e-6;  // the least variance
  Reduction reduction = Reduction::kMean;
};
/// The negative log-likelihood of y under a normal distribution with mean x and variance
/// v = max(var, eps): (log v + (x - y)^2 / v) / 2.
///   var  x's shape, or the same with last size 1
/// grad: x, y, var, twice differentiable. As in PyTorch, var gets a gradient also where it is below
/// eps.
/// throws: ValueError unless eps > 0, and on a CPU for a negative variance; ShapeError, DTypeError,
/// DeviceError.
LATHE_API Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& var,
                                   const GaussianNllOptions& options = {});

namespace cpu {
/// losses = (x - y)² of every element, in f32 or wider. All have one shape and dtype.
void squared_error(const Tensor& losses, const Tensor& x, const Tensor& y);
/// losses = smooth_l1_loss() of every element, in f32 or wider. All have one shape and dtype;
/// beta > 0.
void smooth_l1(const Tensor& losses, const Tensor& x, const Tensor& y, double beta);
}  // namespace cpu

}  // namespace lathe
