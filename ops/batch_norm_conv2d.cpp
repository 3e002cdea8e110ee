// Batch norm, relu and convolution: one op or two. Contract: batch_norm_conv2d.h.
#include "lathe/ops/batch_norm_conv2d.h"

#include <algorithm>

#include "lathe/core/device_scope.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/memory_format.h"

namespace lathe {

bool norm_relu_conv2d_suits(const NormReluConv2dCall& call) {
  const Tensor &x = call.x, &w = call.w;
  const auto& [weight, bias, running_mean, running_var] = call.tensors;
  const BatchNormOptions& norm = call.norm;
  const Conv2dOptions& conv = call.conv;
  if (!norm.training || !x.defined() || !w.defined() || x.ndim() != 4 || w.ndim() != 4 ||
      w.dim(1) != x.dim(1) || w.device() != x.device() || conv.groups != 1 || conv.bias.defined() ||
      x.dim(1) == 0 || x.numel() / x.dim(1) <= 1) {
    return false;
  }
  const auto is_channel_vector = [&](const Tensor* t) {
    return t->defined() && t->shape() == Shape{x.dim(1)} && t->dtype() == kF32 &&
           t->is_contiguous() && t->device() == x.device();
  };
  const auto vectors = {&weight, &bias, &running_mean, &running_var};
  const Tensor& n = norm.num_batches;
  const bool counts =
      !n.defined() || (n.dtype() == kI64 && n.ndim() == 0 && n.device() == x.device());
  return std::ranges::all_of(vectors, is_channel_vector) && counts && norm.momentum >= 0 &&
         norm.momentum <= 1 && norm.eps >= 0;
}

bool norm_relu_conv2d_fuses(const NormReluConv2dCall& call) {
  if (!call.x.defined()) return false;
  if constexpr (kHasCuda) {
    if (call.x.device().is_cuda()) {
      const cuda::DeviceScope on(call.x.device(), "batch_norm_relu_conv2d");
      return cuda::norm_relu_conv2d_fuses(call);
    }
  }
  return call.x.device() == kCPU && cpu::norm_relu_conv2d_fuses(call);
}

Tensors norm_relu_conv2d_gradients(const BatchNormCall& norm, double eps, const Tensor& w,
                                   const Conv2dOptions& conv, const Tensor& dy,
                                   const autograd::Needs& need) {
  const Tensor z =
      batch_norm_relu(norm.x, norm.weight, norm.bias, {}, {}, {.training = true, .eps = eps});
  Tensors grads(4);  // undefined if not needed
  if (need[3]) grads[3] = conv2d_weight_grad(dy, z, w.shape(), conv, memory_format_of(w));
  if (need[0] || need[1] || need[2]) {
    const Tensor dz = conv2d_input_grad(dy, w, z.shape(), conv);
    const Tensors of_norm = batch_norm_gradients(norm, eps, dz, {});
    grads[0] = of_norm[0];
    grads[1] = of_norm[2];
    grads[2] = of_norm[3];
  }
  return grads;
}

Tensor batch_norm_relu_conv2d(const Tensor& x, const BatchNormTensors& norm_tensors,
                              const Tensor& w_in, const BatchNormOptions& norm,
                              const Conv2dOptions& conv) {
  const profile::OpRange range("batch_norm_relu_conv2d",
                               {x, norm_tensors.weight, norm_tensors.bias, w_in});
  if (x.defined() && x.device() == kCPU) {
    const NormReluConv2dCall call{x, w_in, norm_tensors, norm, conv};
    if (cpu::norm_relu_conv2d_fuses(call)) return cpu::norm_relu_conv2d(call);
  }
  if constexpr (kHasCuda) {
    if (x.defined() && x.device().is_cuda()) {
      const NormReluConv2dCall call{x, amp::cast(amp::kHalf, w_in), norm_tensors, norm, conv};
      const cuda::DeviceScope on(x.device(), "batch_norm_relu_conv2d");
      if (cuda::norm_relu_conv2d_fuses(call)) return cuda::norm_relu_conv2d(call);
    }
  }
  check_floating("batch_norm_relu_conv2d", x);
  const auto& [weight, bias, running_mean, running_var] = norm_tensors;
  return conv2d(batch_norm_relu(x, weight, bias, running_mean, running_var, norm), w_in, conv);
}

}  // namespace lathe
