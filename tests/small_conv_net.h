// The network of the tests that let a training step fail at every allocation: few layers, so that
// these are few, and parameters, statistics and a product among them.
#pragma once

#include "lathe/lathe.h"

namespace lathe::test {

/// Images [N,3,6,6] → scores [N,10].
struct SmallConvNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 8, {.kernel = 3, .pad = 1}};
  nn::BatchNorm2d norm{*this, "norm", 8};
  nn::Linear fc{*this, "fc", 8 * 9, 10};

  Tensor forward(const Tensor& x) override {
    return fc(max_pool2d(relu(norm(conv(x))), {.kernel = 2}).flatten(1));
  }
};

}  // namespace lathe::test
