// Linear and Flatten: initial values, multiply-adds; the computation is in ops/.
#include "lathe/nn/linear.h"

#include "lathe/nn/init.h"
#include "lathe/nn/lora_layer.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  const auto values = [&](const Shape& shape) {
    return options.init ? init::uniform_fan_in(shape, in) : init::left_open(shape);
  };
  weight = parameter("weight", values({out, in}));
  if (options.bias) bias = parameter("bias", values({out}));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

int64_t Linear::macs(const Shape&, const Shape& y) const { return numel_of(y) * weight.dim(1); }

std::optional<LoraLayer> Linear::lora_layer() const {
  return LoraLayer{.kind = LoraLayer::Kind::kLinear, .weight = weight};
}

Tensor Flatten::forward(const Tensor& x) { return flatten(x, options_.first, options_.last); }

}  // namespace lathe::nn
