// Batch normalisation per channel, alone or fused with the relu (and the residual sum) that follows
// it. batch_norm.cpp: checks and gradients. batch_norm_kernels/: the kernels for CPU and GPU.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct BatchNormOptions {
  // true: normalise with the batch's statistics and update the running ones; false: normalise with
  // the running statistics.
  bool training = false;
  // Weight of the new value in the running statistics, in [0, 1]; checked only if they are updated.
  // For a cumulative average, pass 1 / (number of batches so far, this one included).
  double momentum = 0.1;
  double eps = 1e-5;        // inside the square root
  Tensor num_batches = {};  // 0-d i64 or undefined: raised by 1 in training
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias. Each channel has its mean and var, taken over
/// all other dimensions.
///   x             [N,C], [N,C,L], [N,C,H,W] or [N,C,D,H,W]; NHWC is kept
///   weight, bias  [C] or undefined (1 and 0)
///   running_mean, running_var
///                 [C], both or neither; without them, evaluation uses the batch's statistics too
///   →             shape and dtype of x
/// Training normalises with the biased variance. It updates the running statistics in place, with
/// the unbiased variance; an empty batch leaves them unchanged:
///   running = (1 - momentum) * running + momentum * batch
/// The variance is summed as squared deviations, so a large mean does not cancel its digits.
/// Kernels sum blocks of values in the dtype of the statistics, and add up the sums of the blocks
/// in f64.
/// dtypes: f16, bf16, f32 with f32 parameters and statistics; f64 with f64 ones.
/// grad: x, weight, bias, twice differentiable.   amp: none, the result follows x.
/// throws: ShapeError (also for one value per channel in training), DTypeError; ValueError if only
/// one of running_mean and running_var is defined, eps is negative, or in training momentum is
/// outside [0, 1].
/// ref: Ioffe and Szegedy 2015 (arXiv:1502.03167); merging of partial variances: Chan, Golub,
/// LeVeque 1979.
LATHE_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var,
                            const BatchNormOptions& options = {});

/// relu(batch_norm(x, …)). Makes no more passes over memory than batch_norm alone.
/// grad: x, weight, bias, twice differentiable.
LATHE_API Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& running_mean, const Tensor& running_var,
                                 const BatchNormOptions& options = {});

/// relu(batch_norm(x, …) + residual): the end of a residual block.
///   residual  shape and dtype of x
/// grad: x, residual, weight, bias, twice differentiable.
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

/// Everything that one normalisation reads, except residual, dy and y, which the kernels take as
/// arguments. x, residual, dy and y are dense in one common order, row-major or NHWC. The exception
/// is dy on a GPU, which may have any strides.
struct BatchNormCall {
  BatchNormForm form;
  Tensor x;
  Tensor mean, invstd;  // [C], the statistics in use
  Tensor weight, bias;  // [C] or undefined
  bool batch_stats;     // mean and invstd depend on x
  // f32 [2,C] or undefined: statistics that the convolution which made x left for each channel. On
  // a CPU: mean and biased variance. On a GPU: the sums of x and of x * x. The variance from these
  // sums has an error of about mean^2 / 2^22. Channels with mean^2 > 4096 * (var + eps) are
  // therefore read again.
  Tensor sums = {};
  // kAddRelu on a GPU: true asks training to fill `passed`, which the gradient reads in place of y.
  // u8 [numel / 8]: bit k of byte i says whether relu passed element 8 i + k, in memory order.
  // Only half types in packets of 8 get it.
  bool wants_passed = false;
  Tensor passed = {};
};

/// The running statistics that a training call updates. If there are none, mean and var are
/// undefined.
struct BatchNormRunning {
  Tensor mean, var;
  double momentum;
  Tensor num_batches;  // if defined, raised by 1 at each update
};

/// Which gradients to compute, and the results. Gradients that are not wanted stay undefined.
struct BatchNormGrads {
  bool want_x, want_residual, want_params;
  Tensor dx, dresidual, dweight, dbias;
  Tensor second_dy = {};  // if defined: the gradient of y is dy + second_dy, added in f32 (or f64)
  // true: nobody reads dy (second_dy) any more, so results may reuse its memory. On a GPU only
  // kAddRelu does: dresidual takes dy's memory, dx takes second_dy's.
  bool dy_is_free = false, second_is_free = false;
};

/// The gradients of {x, residual, weight, bias}. They are made of ops, so they can be
/// differentiated again. y is read only if call.form is kAddRelu.
Tensors batch_norm_gradients(const BatchNormCall& call, double eps, const Tensor& dy,
                             const Tensor& y);

/// A normalisation as scale * x + shift, both [C] in x's dtype.
struct BatchNormCoefficients {
  Tensor scale, shift;
};

/// The last step of batch norm's backward pass: dx = g_factor * g + x_factor * x + constant. g is
/// dy, with 0 for the elements that the relu did not pass. g and x are dense in the same order.
/// g_factor, x_factor and constant are [C], in the statistics' dtype.
struct BatchNormCombined {
  Tensor g, x, g_factor, x_factor, constant;
};

namespace cpu {
BatchNormStats batch_norm_stats(const Tensor& x, double eps);
/// running = (1 - momentum) * running + momentum * batch. `count` is the number of values per
/// channel.
void batch_norm_update_(const BatchNormRunning& running, const BatchNormStats& batch,
                        int64_t count);
/// The statistics of call.x, taken from call.sums if they are defined.
BatchNormStats batch_norm_stats(const BatchNormCall& call, double eps);
/// Computes the statistics of x into call.mean and call.invstd, normalises with them, and updates
/// the running statistics. If an allocation fails, the running statistics are unchanged.
Tensor batch_norm_train(BatchNormCall& call, const Tensor& residual, double eps,
                        const BatchNormRunning& running);
/// 1 / sqrt(var + eps), dense [C], for the running variance.
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
/// y may be undefined if call.passed is defined.
void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
                         const Tensor& y);
/// Like batch_norm_train, but returns coefficients instead of y. Takes two kernel launches and
/// reads x once.
BatchNormCoefficients batch_norm_coefficients(BatchNormCall& call, double eps,
                                              const BatchNormRunning& running);
Tensor batch_norm_combine(const BatchNormCombined& in);
}  // namespace cuda

}  // namespace lathe
