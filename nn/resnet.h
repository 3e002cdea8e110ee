// Residual networks: ResNet-18 to 152 and Wide-ResNet-50-2/101-2 as in torchvision, and the small
// CIFAR family of the same paper.
// ref: He, Zhang, Ren, Sun 2016 (arXiv:1512.03385).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

enum class Stem {
  kImagenet,  // 7x7 convolution of stride 2, then 3x3 max-pool of stride 2: for 224x224
  kCifar,     // 3x3 convolution of stride 1: for 32x32
};

struct ResNetOptions {
  int64_t classes = 1000;
  Stem stem = Stem::kImagenet;
  int64_t in_channels = 3;
};

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). The shortcut is x or, if the shape changes,
/// a 1x1 convolution of x with batch norm. With init = false the caller fills the convolutions'
/// weights (Conv2dOptions::init).
class LATHE_API BasicBlock final : public Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, bool init = true);
  Tensor forward(const Tensor& x) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  std::optional<Sequential> downsample;
};

/// relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + shortcut(x)). The kernels are 1x1 to
/// `width` channels, 3x3, and 1x1 to `out` channels. As in torchvision ("ResNet v1.5") the 3x3
/// convolution has the stride; in the paper the first 1x1 convolution has it. `init` and the
/// shortcut are as in BasicBlock.
class LATHE_API Bottleneck final : public Module {
 public:
  Bottleneck(int64_t in, int64_t width, int64_t out, int64_t stride, bool init = true);
  Tensor forward(const Tensor& x) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  std::optional<Sequential> downsample;
};

/// The sizes of a ResNet.
struct ResNetLayout {
  std::array<int, 4> blocks{};   // of layer1 … layer4; must be set
  bool bottleneck = false;       // true: Bottleneck, with 4 times the channels; false: BasicBlock
  int64_t width_per_group = 64;  // of the 3x3 convolutions of layer1's Bottlenecks
};

/// [N,in_channels,H,W] → [N,classes]. Names and shapes are torchvision's: conv1, bn1, layer1 …
/// layer4, fc. Initial values: convolutions kaiming_normal(fan_out), batch norms with weight 1 and
/// bias 0, fc as in Linear.
class LATHE_API ResNet final : public Module {
 public:
  ResNet(const ResNetLayout& layout, const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;
  /// The input of fc: the network without its head. [N,in_channels,H,W] → [N,512], or [N,2048] with
  /// Bottlenecks
  Tensor features(const Tensor& x);
  Stem stem() const { return stem_; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Sequential layer1{*this, "layer1"}, layer2{*this, "layer2"}, layer3{*this, "layer3"},
      layer4{*this, "layer4"};
  Linear fc;

 private:
  Stem stem_;
};

/// resnet18 has 11,689,512 parameters by default; 11,173,962 with
/// {.classes = 10, .stem = Stem::kCifar}.
LATHE_API ResNet resnet18(const ResNetOptions& options = {});
LATHE_API ResNet resnet34(const ResNetOptions& options = {});
/// ResNet-50, 101 and 152, made of Bottlenecks: 25,557,032, 44,549,160 and 60,192,808 parameters by
/// default.
LATHE_API ResNet resnet50(const ResNetOptions& options = {});
LATHE_API ResNet resnet101(const ResNetOptions& options = {});
LATHE_API ResNet resnet152(const ResNetOptions& options = {});
/// wide_resnet50_2 and wide_resnet101_2 are resnet50 and resnet101 with twice as many channels in
/// the 3x3 convolutions: 68,883,240 and 126,886,696 parameters by default.
/// ref: Zagoruyko and Komodakis 2016 (arXiv:1605.07146).
LATHE_API ResNet wide_resnet50_2(const ResNetOptions& options = {});
LATHE_API ResNet wide_resnet101_2(const ResNetOptions& options = {});

struct CifarResNetOptions {
  int64_t classes = 10;
  int64_t in_channels = 3;  // 1 for Fashion-MNIST
};

/// Like BasicBlock, with a shortcut without parameters (option A of the paper). If the shape
/// changes, the shortcut takes every second row and column and adds channels of zeros, half of them
/// before and half after the channels of x.
class LATHE_API CifarBlock final : public Module {
 public:
  CifarBlock(int64_t in, int64_t out, int64_t stride, bool init = true);
  Tensor forward(const Tensor& x) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;

 private:
  int64_t new_channels_, stride_;
};

/// A ResNet of 6n+2 layers for 32x32 images: a 3x3 convolution, three stages of n blocks with 16,
/// 32 and 64 channels, global average pooling, fc. [N,in_channels,H,W] → [N,classes]. Names: conv1,
/// bn1, layer1 … layer3, fc. Initial values are those of ResNet.
class LATHE_API CifarResNet final : public Module {
 public:
  CifarResNet(int blocks_per_stage, const CifarResNetOptions& options);
  Tensor forward(const Tensor& x) override;
  /// The network without its head. [N,in_channels,H,W] → [N,64]
  Tensor features(const Tensor& x);

  Conv2d conv1;
  BatchNorm2d bn1;
  Sequential layer1{*this, "layer1"}, layer2{*this, "layer2"}, layer3{*this, "layer3"};
  Linear fc;
};

LATHE_API CifarResNet resnet8(const CifarResNetOptions& options = {});
LATHE_API CifarResNet resnet20(const CifarResNetOptions& options = {});  // 269,722 parameters
LATHE_API CifarResNet resnet32(const CifarResNetOptions& options = {});
LATHE_API CifarResNet resnet44(const CifarResNetOptions& options = {});
LATHE_API CifarResNet resnet56(const CifarResNetOptions& options = {});

}  // namespace lathe::nn
