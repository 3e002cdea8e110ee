// EfficientNet-B0 as in torchvision.
// ref: Tan and Le 2019 (arXiv:1905.11946).
#pragma once

#include <cstdint>

#include "lathe/nn/containers.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct EfficientNetOptions {
  int64_t classes = 1000;
  int64_t in_channels = 3;
  double dropout = 0.2;           // before the linear layer, in training
  double stochastic_depth = 0.2;  // p: block i of n has the probability p · i / n
};

/// The sizes of an MBConv.
struct MBConvLayout {
  int64_t in = 0, out = 0;  // must be set
  int64_t kernel = 3, stride = 1;
  int64_t expand = 1;           // factor of the channels inside
  double stochastic_depth = 0;  // probability
};

/// x + stochastic_depth(block(x)) if the result has the shape of x, otherwise block(x). The block:
///   - a 1x1 convolution to expand · in channels, batch norm, silu; absent for expand = 1
///   - a depthwise convolution, batch norm, silu
///   - SqueezeExcitation to in / 4 channels
///   - a 1x1 convolution to `out` channels, batch norm
class LATHE_API MBConv final : public Module {
 public:
  explicit MBConv(const MBConvLayout& layout, bool init = true);
  Tensor forward(const Tensor& x) override;
  bool is_residual() const { return residual_; }

  Sequential block{*this, "block"};
  StochasticDepth stochastic_depth;

 private:
  bool residual_;
};

/// [N,in_channels,H,W] → [N,classes]. The model is designed for 224x224 and has five strides of 2.
/// Names and shapes are torchvision's: features.0 … 8, classifier. Initial values: convolutions
/// kaiming_normal(fan_out), batch norms 1, the linear layer U(±1/sqrt(classes)), all biases 0.
class LATHE_API EfficientNet final : public Module {
 public:
  explicit EfficientNet(const EfficientNetOptions& options);
  Tensor forward(const Tensor& x) override;

  Sequential features{*this, "features"}, classifier{*this, "classifier"};
};

/// 5,288,548 parameters by default.
LATHE_API EfficientNet efficientnet_b0(const EfficientNetOptions& options = {});

}  // namespace lathe::nn
