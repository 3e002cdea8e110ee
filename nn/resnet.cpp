// Residual networks: blocks, stages and their initial values. torchvision's family is above, the
// CIFAR family below.
#include "lathe/nn/resnet.h"

#include "lathe/nn/init.h"
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

/// Adds a stage's blocks; init_convolutions() fills their weights later. The first block changes
/// channels and size, the others keep them.
template <class Block>
void add_blocks(Sequential& stage, int count, int64_t in, int64_t out, int64_t stride) {
  for (int i = 0; i < count; ++i) {
    stage.add<Block>(i == 0 ? in : out, out, i == 0 ? stride : int64_t{1}, false);
  }
}

/// Fills the convolutions as in the paper. Everything else keeps its layer's default.
void init_convolutions(Module& model) {
  model.apply([](Module& module) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(&module)) {
      init::kaiming_normal_(conv->weight, {.mode = init::kFanOut});
    }
  });
}

}  // namespace

// --- torchvision's family ------------------------------------------------------------------------

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, bool init)
    : conv1(*this, "conv1", in, out, conv3x3(stride, init)),
      bn1(*this, "bn1", out),
      conv2(*this, "conv2", out, out, conv3x3(1, init)),
      bn2(*this, "bn2", out) {
  if (stride == 1 && in == out) return;
  downsample.emplace(*this, "downsample");
  downsample->add<Conv2d>(
      in, out, Conv2dOptions{.kernel = 1, .stride = stride, .bias = false, .init = init});
  downsample->add<BatchNorm2d>(out);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor shortcut = downsample ? (*downsample)(x) : x;
  return bn2.add_relu(conv2(bn1.relu(conv1(x))), shortcut);
}

ResNet::ResNet(const std::array<int, 4>& blocks, const ResNetOptions& options)
    : conv1(*this, "conv1", options.in_channels, 64, stem_conv(options.stem)),
      bn1(*this, "bn1", 64),
      fc(*this, "fc", 512, options.classes),
      stem_(options.stem) {
  add_blocks<BasicBlock>(layer1, blocks[0], 64, 64, 1);
  add_blocks<BasicBlock>(layer2, blocks[1], 64, 128, 2);
  add_blocks<BasicBlock>(layer3, blocks[2], 128, 256, 2);
  add_blocks<BasicBlock>(layer4, blocks[3], 256, 512, 2);
  init_convolutions(*this);
}

Tensor ResNet::forward(const Tensor& x) { return fc(features(x)); }

Tensor ResNet::features(const Tensor& x) {
  Tensor y = bn1.relu(conv1(x));
  if (stem_ == Stem::kImagenet) y = max_pool2d(y, {.kernel = 3, .stride = 2, .pad = 1});
  y = layer4(layer3(layer2(layer1(y))));
  return mean(y, {2, 3});
}

ResNet resnet18(const ResNetOptions& options) { return ResNet({2, 2, 2, 2}, options); }
ResNet resnet34(const ResNetOptions& options) { return ResNet({3, 4, 6, 3}, options); }

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
  return bn2.add_relu(conv2(bn1.relu(conv1(x))), shortcut);
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
  const Tensor y = layer3(layer2(layer1(bn1.relu(conv1(x)))));
  return mean(y, {2, 3});
}

CifarResNet resnet8(const CifarResNetOptions& options) { return CifarResNet(1, options); }
CifarResNet resnet20(const CifarResNetOptions& options) { return CifarResNet(3, options); }
CifarResNet resnet32(const CifarResNetOptions& options) { return CifarResNet(5, options); }
CifarResNet resnet44(const CifarResNetOptions& options) { return CifarResNet(7, options); }
CifarResNet resnet56(const CifarResNetOptions& options) { return CifarResNet(9, options); }

}  // namespace lathe::nn
