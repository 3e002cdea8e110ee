// MobileNetV2 as in torchvision.
// ref: Sandler et al. 2018 (arXiv:1801.04381).
#pragma once

#include <cstdint>

#include "lathe/nn/containers.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct MobileNetV2Options {
  int64_t classes = 1000;
  int64_t in_channels = 3;
  double dropout = 0.2;  // before the linear layer, in training
};

/// x + conv(x) if the result has the shape of x, otherwise conv(x). conv is:
///   - a 1x1 convolution to expand · in channels, batch norm, relu6; absent for expand = 1
///   - a depthwise 3x3 convolution, batch norm, relu6
///   - a 1x1 convolution to `out` channels, batch norm
class LATHE_API InvertedResidual final : public Module {
 public:
  InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t expand, bool init = true);
  Tensor forward(const Tensor& x) override;
  bool is_residual() const { return residual_; }

  Sequential conv{*this, "conv"};

 private:
  bool residual_;
};

/// [N,in_channels,H,W] → [N,classes]. The model is designed for 224x224 and has five strides of 2.
/// Names and shapes are torchvision's: features.0 … 18, classifier. Initial values: convolutions
/// kaiming_normal(fan_out), batch norms 1, the linear layer N(0, 0.01), all biases 0.
class LATHE_API MobileNetV2 final : public Module {
 public:
  explicit MobileNetV2(const MobileNetV2Options& options);
  Tensor forward(const Tensor& x) override;

  Sequential features{*this, "features"}, classifier{*this, "classifier"};
};

/// 3,504,872 parameters by default.
LATHE_API MobileNetV2 mobilenet_v2(const MobileNetV2Options& options = {});

}  // namespace lathe::nn
