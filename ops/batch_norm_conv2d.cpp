// Batch norm, relu and convolution: one op or several. Contract: batch_norm_conv2d.h.
#include "lathe/ops/batch_norm_conv2d.h"

#include "lathe/core/device_scope.h"
#include "lathe/core/profile/range.h"
#include "lathe/ops/autocast.h"

namespace lathe {

Tensor batch_norm_relu_conv2d(const Tensor& x, const BatchNormTensors& norm_tensors,
                              const Tensor& w_in, const BatchNormOptions& norm,
                              const Conv2dOptions& conv) {
  const profile::OpRange range("batch_norm_relu_conv2d",
                               {x, norm_tensors.weight, norm_tensors.bias, w_in});
  if constexpr (kHasCuda) {
    if (x.defined() && x.device().is_cuda()) {
      const NormReluConv2dCall call{x, amp::cast(amp::kHalf, w_in), norm_tensors, norm, conv};
      const cuda::DeviceScope on(x.device(), "batch_norm_relu_conv2d");
      if (cuda::norm_relu_conv2d_fuses(call)) return cuda::norm_relu_conv2d(call);
    }
  }
  const auto& [weight, bias, running_mean, running_var] = norm_tensors;
  return conv2d(batch_norm_relu(x, weight, bias, running_mean, running_var, norm), w_in, conv);
}

}  // namespace lathe
