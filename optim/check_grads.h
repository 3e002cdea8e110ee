// What a step learns of the gradients before it uses them: whether one overflowed, their total
// norm, and so the factors by which the update multiplies them on their way in. This check and the
// update replace unscaling and clipping in memory, with the same bits.
#pragma once

#include <span>

#include "lathe/core/tensor.h"
#include "lathe/optim/update.h"

namespace lathe::optim {

/// One check: its input, then what it writes.
struct GradCheck {
  Tensors grads;          // dense, on one device
  Tensor scale = {};      // 0-d f32; undefined: 1
  double max_norm = 0;    // 0: no clipping
  Tensor found_inf = {};  // 0-d f32 or undefined; written if there is a scale, otherwise read
  Tensor total = {};      // 0-d, f32 (f64 if a gradient is): receives the norm before clipping
  Tensor factors;         // f64[2]: receives 1 / scale and the factor of the clipping
};

namespace cpu {
void check_grads(const GradCheck& check, std::span<UpdateItem> items);

/// The p-norm of gradient · unscale. *finite becomes false if an element of the gradient is inf or
/// NaN.
double norm_of(const Tensor& grad, double p, double unscale, bool* finite);
}  // namespace cpu

namespace cuda {
/// Checks gradients. Unless the step is skipped, also raises the counts of the items (as many as
/// one launch can hold), and marks those items as counted. Two launches, of which the first runs
/// once per dtype.
void check_grads(const GradCheck& check, std::span<UpdateItem> items);
}  // namespace cuda

}  // namespace lathe::optim
