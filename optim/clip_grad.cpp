// Gradient clipping: checks and dispatch. Loops: kernels/clip_grad_cpu.cpp,
// kernels/clip_grad_cuda.cu.
#include "lathe/optim/clip_grad.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/optim/writable_grads.h"

namespace lathe::optim {

Tensor clip_grad_norm_(const Tensors& params, double max_norm, const ClipGradNormOptions& options) {
  const profile::OpRange range("clip_grad_norm_", params);
  LATHE_CHECK(ValueError, max_norm >= 0, "clip_grad_norm_: max_norm must not be negative, got ",
              max_norm);
  LATHE_CHECK(ValueError, options.norm > 0, "clip_grad_norm_: norm must be above 0, got ",
              options.norm);
  const Tensors grads = writable_grads("clip_grad_norm_", params);
  const bool any_f64 =
      std::ranges::any_of(grads, [](const Tensor& g) { return g.dtype() == kF64; });
  const DType dtype = any_f64 ? kF64 : kF32;
  if (grads.empty()) {
    const Tensor zero = empty({}, {.dtype = dtype});
    fill_values(zero, 0);
    return zero;
  }
  const Device device = grads.front().device();
  const Tensor total = LATHE_DISPATCH(device, grad_norm(grads, options.norm, dtype));
  if (options.error_if_nonfinite) {
    const double value = total.item<double>();
    LATHE_CHECK(StateError, std::isfinite(value), "clip_grad_norm_: the total norm of ",
                grads.size(), " gradients is ", value);
  }
  LATHE_DISPATCH(device, scale_grads(grads, total, max_norm));
  for (const Tensor& g : grads) g.bump_version();
  return total;
}

void clip_grad_value_(const Tensors& params, double clip_value) {
  const profile::OpRange range("clip_grad_value_", params);
  LATHE_CHECK(ValueError, clip_value >= 0,
              "clip_grad_value_: clip_value must not be negative, got ", clip_value);
  const Tensors grads = writable_grads("clip_grad_value_", params);
  if (grads.empty()) return;
  LATHE_DISPATCH(grads.front().device(), clamp_grads(grads, clip_value));
  for (const Tensor& g : grads) g.bump_version();
}

}  // namespace lathe::optim
