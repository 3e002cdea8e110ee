// ConvNeXt-T as in torchvision.
// ref: Liu et al. 2022 (arXiv:2201.03545).
#pragma once

#include <cstdint>

#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module.h"
#include "lathe/nn/norm.h"

namespace lathe::nn {

struct ConvNeXtOptions {
  int64_t classes = 1000;
  int64_t in_channels = 3;
  double stochastic_depth = 0.1;  // probability p of the last block; block i of n: p · i / (n - 1)
  double layer_scale = 1e-6;      // initial value of each block's factors
};

/// x + stochastic_depth(layer_scale · block(x)). The block consists of:
///   - a depthwise 7x7 convolution
///   - LayerNorm over the channels
///   - two linear layers at each position, with gelu between them; the inner width is 4 · channels
/// block.0, .2, .3 and .5 have parameters. layer_scale is [channels,1,1].
class LATHE_API ConvNeXtBlock final : public Module {
 public:
  ConvNeXtBlock(int64_t channels, double layer_scale, double stochastic_depth);
  Tensor forward(const Tensor& x) override;

  Parameter layer_scale;
  Sequential block{*this, "block"};
  StochasticDepth stochastic_depth;
};

/// [N,in_channels,H,W] → [N,classes]. H and W must be at least 32; the model is designed for
/// 224x224. Names and shapes are torchvision's: features.0 … 7, classifier. Initial values: weights
/// of convolutions and linear layers trunc_normal(std = 0.02), weights of norms 1, all biases 0.
class LATHE_API ConvNeXt final : public Module {
 public:
  explicit ConvNeXt(const ConvNeXtOptions& options);
  /// throws: ShapeError for images smaller than 32x32.
  Tensor forward(const Tensor& x) override;

  Sequential features{*this, "features"}, classifier{*this, "classifier"};
};

/// 28,589,128 parameters by default.
LATHE_API ConvNeXt convnext_tiny(const ConvNeXtOptions& options = {});

}  // namespace lathe::nn
