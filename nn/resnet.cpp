// Residual networks: blocks, stages and their initial values. torchvision's family is above, the
// CIFAR family below.
#include "lathe/nn/resnet.h"

#include "lathe/nn/conv_norm.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

Conv2dOptions conv3x3(int64_t stride, bool init) {
  return {.kernel = 3, .stride = stride, .pad = 1, .bias = false, .init = init};
}

Conv2dOptions stem_conv(Stem stem) {
  if (stem == Stem::kCifar) return conv3x3(1, false);
  return {.kernel = 7, .stride = 2, .pad = 3, .bias = false, .init = false};
}

Conv2dOptions conv1x1(int64_t stride, bool init) {
  return {.kernel = 1, .stride = stride, .bias = false, .init = init};
}

/// Fills `downsample` where a block changes the shape.
void add_shortcut(Module& block, std::optional<Sequential>& downsample, int64_t in, int64_t out,
                  int64_t stride, bool init) {
  if (stride == 1 && in == out) return;
  downsample.emplace(block, "downsample");
  downsample->add<Conv2d>(in, out, conv1x1(stride, init));
  downsample->add<BatchNorm2d>(out);
}

/// Adds a stage's blocks; init_convolutions() fills their weights later. The first block changes
/// channels and size, the others keep them. `width`: one number for Bottlenecks, none for others.
template <class Block, class... Width>
void add_blocks(Sequential& stage, int count, int64_t in, int64_t out, int64_t stride,
                Width... width) {
  for (int i = 0; i < count; ++i) {
    stage.add<Block>(i == 0 ? in : out, width..., out, i == 0 ? stride : int64_t{1}, false);
  }
}

}  // namespace

// --- torchvision's family ------------------------------------------------------------------------

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, bool init)
    : conv1(*this, "conv1", in, out, conv3x3(stride, init)),
      bn1(*this, "bn1", out),
      conv2(*this, "conv2", out, out, conv3x3(1, init)),
      bn2(*this, "bn2", out) {
  add_shortcut(*this, downsample, in, out, stride, init);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor shortcut = downsample ? (*downsample)(x) : x;
  const Tensor y = conv2(bn1.relu(conv1(x)));  // what is between goes before the next result comes
  return bn2.add_relu(y, shortcut);
}

Bottleneck::Bottleneck(int64_t in, int64_t width, int64_t out, int64_t stride, bool init)
    : conv1(*this, "conv1", in, width, conv1x1(1, init)),
      bn1(*this, "bn1", width),
      conv2(*this, "conv2", width, width, conv3x3(stride, init)),
      bn2(*this, "bn2", width),
      conv3(*this, "conv3", width, out, conv1x1(1, init)),
      bn3(*this, "bn3", out) {
  add_shortcut(*this, downsample, in, out, stride, init);
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor shortcut = downsample ? (*downsample)(x) : x;
  const Tensor y = conv2(bn1.relu(conv1(x))), z = conv3(bn2.relu(y));
  return bn3.add_relu(z, shortcut);
}

ResNet::ResNet(const ResNetLayout& layout, const ResNetOptions& options)
    : conv1(*this, "conv1", options.in_channels, 64, stem_conv(options.stem)),
      bn1(*this, "bn1", 64),
      fc(*this, "fc", layout.bottleneck ? 2048 : 512, options.classes),
      stem_(options.stem) {
  Sequential* const stages[] = {&layer1, &layer2, &layer3, &layer4};
  int64_t in = 64;
  for (int i = 0; i < 4; ++i) {
    const int64_t channels = int64_t{64} << i, stride = i == 0 ? 1 : 2;
    const int64_t out = layout.bottleneck ? 4 * channels : channels;
    const int count = layout.blocks[size_t(i)];
    if (layout.bottleneck) {
      const int64_t width = layout.width_per_group << i;
      add_blocks<Bottleneck>(*stages[i], count, in, out, stride, width);
    } else {
      add_blocks<BasicBlock>(*stages[i], count, in, out, stride);
    }
    in = out;
  }
  init_convolutions(*this);
}

Tensor ResNet::forward(const Tensor& x) { return fc(features(x)); }

Tensor ResNet::features(const Tensor& x) {
  Tensor y = bn1.relu(conv1(x));
  if (stem_ == Stem::kImagenet) y = max_pool2d(y, {.kernel = 3, .stride = 2, .pad = 1});
  for (Sequential* const stage : {&layer1, &layer2, &layer3, &layer4}) y = (*stage)(y);
  return mean(y, {2, 3});
}

ResNet resnet18(const ResNetOptions& options) { return ResNet({.blocks = {2, 2, 2, 2}}, options); }
ResNet resnet34(const ResNetOptions& options) { return ResNet({.blocks = {3, 4, 6, 3}}, options); }
ResNet resnet50(const ResNetOptions& options) {
  return ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = true}, options);
}
ResNet resnet101(const ResNetOptions& options) {
  return ResNet({.blocks = {3, 4, 23, 3}, .bottleneck = true}, options);
}
ResNet resnet152(const ResNetOptions& options) {
  return ResNet({.blocks = {3, 8, 36, 3}, .bottleneck = true}, options);
}
ResNet wide_resnet50_2(const ResNetOptions& options) {
  return ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = true, .width_per_group = 128}, options);
}
ResNet wide_resnet101_2(const ResNetOptions& options) {
  return ResNet({.blocks = {3, 4, 23, 3}, .bottleneck = true, .width_per_group = 128}, options);
}

// --- the CIFAR family ----------------------------------------------------------------------------

CifarBlock::CifarBlock(int64_t in, int64_t out, int64_t stride, bool init)
    : conv1(*this, "conv1", in, out, conv3x3(stride, init)),
      bn1(*this, "bn1", out),
      conv2(*this, "conv2", out, out, conv3x3(1, init)),
      bn2(*this, "bn2", out),
      new_channels_(out - in),
      stride_(stride) {}

Tensor CifarBlock::forward(const Tensor& x) {
  Tensor shortcut = x;
  if (stride_ > 1) {
    shortcut = slice(slice(x, 2, 0, x.dim(2), stride_), 3, 0, x.dim(3), stride_);
  }
  if (new_channels_ > 0) {
    const int64_t before = new_channels_ / 2;
    shortcut = pad(shortcut, {0, 0, 0, 0, before, new_channels_ - before});
  }
  const Tensor y = conv2(bn1.relu(conv1(x)));
  return bn2.add_relu(y, shortcut);
}

CifarResNet::CifarResNet(int blocks_per_stage, const CifarResNetOptions& options)
    : conv1(*this, "conv1", options.in_channels, 16, conv3x3(1, false)),
      bn1(*this, "bn1", 16),
      fc(*this, "fc", 64, options.classes) {
  add_blocks<CifarBlock>(layer1, blocks_per_stage, 16, 16, 1);
  add_blocks<CifarBlock>(layer2, blocks_per_stage, 16, 32, 2);
  add_blocks<CifarBlock>(layer3, blocks_per_stage, 32, 64, 2);
  init_convolutions(*this);
}

Tensor CifarResNet::forward(const Tensor& x) { return fc(features(x)); }

Tensor CifarResNet::features(const Tensor& x) {
  Tensor y = bn1.relu(conv1(x));
  for (Sequential* const stage : {&layer1, &layer2, &layer3}) y = (*stage)(y);
  return mean(y, {2, 3});
}

CifarResNet resnet8(const CifarResNetOptions& options) { return CifarResNet(1, options); }
CifarResNet resnet20(const CifarResNetOptions& options) { return CifarResNet(3, options); }
CifarResNet resnet32(const CifarResNetOptions& options) { return CifarResNet(5, options); }
CifarResNet resnet44(const CifarResNetOptions& options) { return CifarResNet(7, options); }
CifarResNet resnet56(const CifarResNetOptions& options) { return CifarResNet(9, options); }

}  // namespace lathe::nn
