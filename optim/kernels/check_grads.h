// What a step can learn of the gradients before it uses them: whether one overflowed, their total
// norm, and so the factors by which the update multiplies them on their way in. Together with the
// update that takes the place of unscaling and clipping in memory, with the same bits.
#pragma once

#include <span>

#include "lathe/core/tensor.h"
#include "lathe/optim/kernels/update.h"

namespace lathe::optim {

struct GradCheck {
  Tensors grads;          // dense, on one device
  Tensor scale = {};      // 0-d f32; undefined: 1
  double max_norm = 0;    // 0: no clipping
  Tensor found_inf = {};  // 0-d f32 or undefined; written where there is a scale, else read
  Tensor total = {};      // 0-d, f32 (f64 if a gradient is): receives the norm before clipping
  Tensor factors;         // f64[2]: receives 1 / scale and the factor of the clipping
};

namespace cpu {
void check_grads(const GradCheck& check, std::span<UpdateItem> items);

/// The p-norm of gradient * unscale; *finite becomes false where an element of the gradient is inf
/// or NaN.
double norm_of(const Tensor& grad, double p, double unscale, bool* finite);
}  // namespace cpu

namespace cuda {
/// Also raises the counts of the items (as many as one launch takes), unless the step is skipped,
/// and marks them as counted. Two launches, one of them for each dtype.
void check_grads(const GradCheck& check, std::span<UpdateItem> items);
}  // namespace cuda

}  // namespace lathe::optim
