// Gradient clipping.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::optim {

struct ClipGradNormOptions {
  double norm = 2;  // p of the p-norm, above 0; infinity: the largest magnitude
  bool error_if_nonfinite =
      false;  // true: a total that is inf or NaN throws, and nothing was scaled
};

/// Scales the gradients so that their total norm does not exceed max_norm: each is multiplied by
/// min(1, max_norm / (total + 1e-6)), also where that is 1. A parameter without gradient is left
/// out. → the total before scaling, 0-d, f32 (f64 if a gradient is): the norm of the gradients'
/// norms; 0 if there are none. Sums run in double. An infinite total makes finite gradients 0 and
/// infinite ones NaN.
/// throws: ValueError for a negative or NaN max_norm or a norm that is not above 0; DeviceError for
/// several devices;
///         StateError for a total that is not finite, if asked (that check waits for the device).
LATHE_API Tensor clip_grad_norm_(const Tensors& params, double max_norm,
                                 const ClipGradNormOptions& options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]; NaN stays.
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
