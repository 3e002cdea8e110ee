// Batch normalisation per channel, alone or fused with the relu (and the residual sum) that follows
// it. Here: contracts. batch_norm.cpp: checks and gradients. batch_norm_kernels/: the kernels for
// CPU and GPU.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct BatchNormOptions {
  // true: normalise with the batch's statistics and update the running ones; false: normalise with
  // the running statistics.
  bool training = false;
  // Weight of the new value in the running statistics, in [0, 1]; checked only where they are
  // updated. For a cumulative average pass 1 / (number of batches so far, this one included).
  double momentum = 0.1;
  double eps = 1e-5;        // inside the square root
  Tensor num_batches = {};  // 0-d i64 or undefined: raised by 1 in training
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias. mean and var are those of each channel, over
/// all other dimensions.
///   x             [N,C], [N,C,L], [N,C,H,W] or [N,C,D,H,W]; NHWC is kept
///   weight, bias  [C] or undefined (1 and 0)
///   running_mean, running_var
///                 [C], both or neither; without them batch statistics are used in every mode
///   →             shape and dtype of x
/// Training normalises with the biased variance and updates the running statistics in place, with
/// the unbiased variance:
///   running = (1 - momentum) * running + momentum * batch
/// An empty batch changes nothing. The variance is a sum of squared deviations: from the mean in a
/// second pass over a block (CPU), or from one of the values that a thread sums up (GPU). Sums are
/// in the dtype of the statistics within a block and in f64 between blocks.
/// dtypes: f16, bf16, f32 with f32 parameters and statistics; f64 with f64 ones.
/// grad: x, weight, bias (twice).   amp: none, the result follows x.
/// throws: ShapeError (also for one value per channel in training), DTypeError, ValueError.
/// ref: Ioffe and Szegedy 2015 (arXiv:1502.03167); merging of partial variances: Chan, Golub,
/// LeVeque 1979.
LATHE_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var,
                            const BatchNormOptions& options = {});

/// relu(batch_norm(x, …)) in the same passes over memory as batch_norm alone.
/// grad: x, weight, bias (twice).
LATHE_API Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& running_mean, const Tensor& running_var,
                                 const BatchNormOptions& options = {});

/// relu(batch_norm(x, …) + residual): the end of a residual block.
///   residual  shape and dtype of x
/// grad: x, residual, weight, bias (twice).
LATHE_API Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                     const Tensor& bias, const Tensor& running_mean,
                                     const Tensor& running_var,
                                     const BatchNormOptions& options = {});

/// What follows the normalisation inside the same kernel.
enum class BatchNormForm : uint8_t { kPlain, kRelu, kAddRelu };

/// Statistics of one batch: f32 (f64 for f64 input), dense [C].
struct BatchNormStats {
  Tensor mean, var, invstd;  // var: biased; invstd = 1 / sqrt(var + eps)
};

/// Everything that one normalisation reads. x, residual, dy and y are all dense in the same order:
/// row-major or NHWC. On a GPU, dy may have any strides.
struct BatchNormCall {
  BatchNormForm form;
  Tensor x;
  Tensor mean, invstd;  // [C], the statistics in use
  Tensor weight, bias;  // [C] or undefined
  bool batch_stats;     // mean and invstd depend on x
  // f32 [2,C], or undefined: what the convolution that made x has left for each channel. On a CPU
  // mean and biased variance, on a GPU the sums of x and of x * x. The variance from those is off
  // by about mean^2 / 2^22. Channels whose mean^2 > 4096 * (var + eps) are therefore read again.
  Tensor sums = {};
  // kAddRelu on a GPU: training is to leave `passed`, for a gradient that reads it in place of y.
  // u8 [numel / 8]: bit k of byte i says that relu passed number 8 i + k in the order of memory.
  // Only halves in packets of 8 get it.
  bool wants_passed = false;
  Tensor passed = {};
};

/// The running statistics that a training call moves; mean and var undefined: none.
struct BatchNormRunning {
  Tensor mean, var;
  double momentum;
  Tensor num_batches;  // raised by 1 with them, if defined
};

/// Which gradients to compute, and the results; those not wanted stay undefined.
struct BatchNormGrads {
  bool want_x, want_residual, want_params;
  Tensor dx, dresidual, dweight, dbias;
  Tensor second_dy = {};  // if defined: the gradient of y is dy + second_dy, added in f32 (or f64)
  // Nobody reads dy, or second_dy, any more: results may be in their memory. On a GPU only those
  // of kAddRelu are: dresidual in dy's, dx in second_dy's.
  bool dy_is_free = false, second_is_free = false;
};

/// The gradients of {x, residual, weight, bias}, made of ops, so that they have gradients
/// themselves. y is read for kAddRelu only.
Tensors batch_norm_gradients(const BatchNormCall& call, double eps, const Tensor& dy,
                             const Tensor& y);

/// A normalisation as a factor and a summand per channel, [C] in x's dtype: scale * x + shift.
struct BatchNormCoefficients {
  Tensor scale, shift;
};

/// What is left of a gradient when the sums are known: dx = g_factor * g + x_factor * x + constant.
/// g and x are dense in the same order; the others are [C] of the statistics' dtype.
struct BatchNormCombined {
  Tensor g, x, g_factor, x_factor, constant;
};

namespace cpu {
BatchNormStats batch_norm_stats(const Tensor& x, double eps);
/// running = (1 - momentum) * running + momentum * batch. `count` is the number of values per
/// channel.
void batch_norm_update_(const BatchNormRunning& running, const BatchNormStats& batch,
                        int64_t count);
/// Of x, or from call.sums if they are there.
BatchNormStats batch_norm_stats(const BatchNormCall& call, double eps);
/// Computes the statistics of x into call.mean and call.invstd, normalises with them, and moves the
/// running statistics: after all memory is there, so that a call that fails leaves them unchanged.
Tensor batch_norm_train(BatchNormCall& call, const Tensor& residual, double eps,
                        const BatchNormRunning& running);
/// 1 / sqrt(var + eps), dense [C], of a given variance: the running one.
Tensor batch_norm_invstd(const Tensor& var, double eps);
Tensor batch_norm_forward(const BatchNormCall& call, const Tensor& residual);
/// Only kAddRelu reads y; the other forms compute their mask from x.
void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
                         const Tensor& y);
}  // namespace cpu
namespace cuda {
Tensor batch_norm_train(BatchNormCall& call, const Tensor& residual, double eps,
                        const BatchNormRunning& running);
Tensor batch_norm_invstd(const Tensor& var, double eps);
Tensor batch_norm_forward(const BatchNormCall& call, const Tensor& residual);
/// y may be undefined where call.passed is there.
void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
                         const Tensor& y);
/// As batch_norm_train, but for y itself: two launches, and x is read once.
BatchNormCoefficients batch_norm_coefficients(BatchNormCall& call, double eps,
                                              const BatchNormRunning& running);
Tensor batch_norm_combine(const BatchNormCombined& in);
}  // namespace cuda

}  // namespace lathe
