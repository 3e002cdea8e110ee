// Conv2dNormActivation and SqueezeExcitation: which ops they call; init_convolutions().
#include "lathe/nn/conv_norm.h"

#include "lathe/nn/init.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace lathe::nn {

Conv2dNormActivation::Conv2dNormActivation(int64_t in, int64_t out,
                                           const Conv2dNormActivationOptions& o)
    : conv(*this, "0", in, out,
           {.kernel = o.kernel,
            .stride = o.stride,
            .pad = (o.kernel - 1) / 2,
            .groups = o.groups,
            .bias = false,
            .init = o.init}),
      norm(*this, "1", out),
      activation_(o.activation) {
  LATHE_CHECK(ValueError, o.kernel % 2 == 1, "Conv2dNormActivation: kernel must be odd, got ",
              o.kernel);
}

Tensor Conv2dNormActivation::forward(const Tensor& x) {
  const Tensor y = conv(x);
  switch (activation_) {
    case ConvActivation::kReLU: return norm.relu(y);
    case ConvActivation::kReLU6: return relu6(norm(y));
    case ConvActivation::kSiLU: return silu(norm(y));
    case ConvActivation::kNone: break;
  }
  return norm(y);
}

SqueezeExcitation::SqueezeExcitation(int64_t channels, int64_t squeezed, bool init)
    : fc1(*this, "fc1", channels, squeezed, {.kernel = 1, .init = init}),
      fc2(*this, "fc2", squeezed, channels, {.kernel = 1, .init = init}) {}

Tensor SqueezeExcitation::forward(const Tensor& x) {
  const Tensor means = mean(x, {2, 3}, {.keepdim = true});
  return mul(x, sigmoid(fc2(silu(fc1(means)))));
}

void init_convolutions(Module& model) {
  model.apply([](Module& module) {
    const auto* conv = dynamic_cast<const Conv2d*>(&module);
    if (conv == nullptr) return;
    init::kaiming_normal_(conv->weight, {.mode = init::kFanOut});
    if (conv->bias.defined()) init::zeros_(conv->bias);
  });
}

}  // namespace lathe::nn
