// VGG-11, 13, 16 and 19 as in torchvision, with and without batch norm.
// ref: Simonyan and Zisserman 2015 (arXiv:1409.1556).
#pragma once

#include <cstdint>
#include <span>

#include "lathe/nn/containers.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct VggOptions {
  int64_t classes = 1000;
  bool batch_norm = false;  // after each convolution
  int64_t in_channels = 3;
  double dropout = 0.5;  // after the first and the second linear layer, in training
};

/// 3x3 convolutions with relu and five 2x2 max-pools, average pooling to 7x7, three linear layers.
/// [N,in_channels,H,W] → [N,classes]. H and W must be at least 32; the model is designed for
/// 224x224. Names and shapes are torchvision's: features, classifier. Initial values: convolutions
/// kaiming_normal(fan_out), linear layers N(0, 0.01), batch norms 1, all biases 0.
class LATHE_API VGG final : public Module {
 public:
  /// stages: the number of convolutions before each of the five max-pools.
  VGG(std::span<const int, 5> stages, const VggOptions& options);
  /// throws: ShapeError for images smaller than 32x32.
  Tensor forward(const Tensor& x) override;

  Sequential features{*this, "features"}, classifier{*this, "classifier"};
};

/// VGG networks with 11, 13, 16 or 19 layers. Their numbers of parameters by default, and the
/// parameters that batch norm adds:
///   vgg11  132,863,336, with batch norm 5,504 more
///   vgg13  133,047,848, with batch norm 5,888 more
///   vgg16  138,357,544, with batch norm 8,448 more
///   vgg19  143,667,240, with batch norm 11,008 more
LATHE_API VGG vgg11(const VggOptions& options = {});
LATHE_API VGG vgg13(const VggOptions& options = {});
LATHE_API VGG vgg16(const VggOptions& options = {});
LATHE_API VGG vgg19(const VggOptions& options = {});

}  // namespace lathe::nn
