// A small model with the launches of ResNet-18.
#pragma once

#include "lathe/lathe.h"

namespace lathe::test {

/// ResNet-18 for CIFAR (nn/resnet.h) with an eighth of the channels: the same launches.
struct NarrowResNet18 : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 8};
  nn::Sequential blocks{*this, "blocks"};
  nn::Linear fc{*this, "fc", 64, 10};

  NarrowResNet18() {
    int64_t in = 8;
    for (const int64_t out : {8, 16, 32, 64}) {
      blocks.add<nn::BasicBlock>(in, out, in == out ? 1 : 2, true);
      blocks.add<nn::BasicBlock>(out, out, 1, true);
      in = out;
    }
  }
  Tensor forward(const Tensor& x) override { return fc(mean(blocks(bn1.relu(conv1(x))), {2, 3})); }
};

}  // namespace lathe::test
