// Gradient clipping, by norm and by value.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::optim {

struct ClipGradNormOptions {
  double norm = 2;                  // p of the p-norm, above 0; infinity: the largest magnitude
  bool error_if_nonfinite = false;  // true: throws if the total is inf or NaN, and scales nothing
};

/// Scales the gradients so that their total norm is at most max_norm: multiplies each by min(1,
/// max_norm / (total + 1e-6)). Skips parameters without a gradient. Sums run in f64. If the total
/// is infinite, finite numbers in the gradients become 0, and infinite ones NaN.
/// → the total norm before scaling (the norm of the gradients' norms), 0 if there are no gradients.
/// It is a 0-d tensor, in f64 if a gradient is f64, else in f32
/// throws: ValueError if max_norm is negative or NaN, or `norm` is not above 0; DeviceError for
/// gradients on several devices; with error_if_nonfinite StateError if the total is not finite
/// (this check waits for the device).
LATHE_API Tensor clip_grad_norm_(const Tensors& params, double max_norm,
                                 const ClipGradNormOptions& options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]. NaN stays NaN.
/// throws: ValueError for a negative or NaN clip_value.
LATHE_API void clip_grad_value_(const Tensors& params, double clip_value);

namespace cpu {
/// The norm of the norms of `grads`, 0-d of `dtype`.
Tensor grad_norm(const Tensors& grads, double norm, DType dtype);
/// grad *= min(1, max_norm / (total + 1e-6)).
void scale_grads(const Tensors& grads, const Tensor& total, double max_norm);
void clamp_grads(const Tensors& grads, double limit);
}  // namespace cpu
namespace cuda {
Tensor grad_norm(const Tensors& grads, double norm, DType dtype);
void scale_grads(const Tensors& grads, const Tensor& total, double max_norm);
void clamp_grads(const Tensors& grads, double limit);
}  // namespace cuda

}  // namespace lathe::optim

namespace lathe::nn::utils {  // PyTorch's place for them
using optim::clip_grad_norm_, optim::clip_grad_value_;
}  // namespace lathe::nn::utils
