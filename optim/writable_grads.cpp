// writable_grads(): finds the gradients of parameters and makes them writable.
#include "lathe/optim/writable_grads.h"

#include "lathe/core/copy.h"

namespace lathe::optim {

Tensors writable_grads(const char* op, const Tensors& params) {
  Tensors grads;
  for (const Tensor& p : params) {
    Tensor grad = p.grad();
    if (!grad.defined()) continue;
    LATHE_CHECK(DeviceError, grads.empty() || grads.front().device() == grad.device(), op,
                ": gradients on several devices (", grads.front(), ", ", grad, ")");
    if (has_overlap(grad)) {
      const Tensor copy = empty(grad.shape(), {.dtype = grad.dtype(), .device = grad.device()});
      copy_values(copy, grad);
      p.set_grad(copy);
      grad = copy;
    }
    grads.push_back(grad);
  }
  return grads;
}

}  // namespace lathe::optim
