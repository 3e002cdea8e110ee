// Building blocks of convolutional networks under torchvision's names: Conv2dNormActivation and
// SqueezeExcitation; and the initial values of their convolutions.
#pragma once

#include <cstdint>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

enum class ConvActivation : uint8_t { kNone, kReLU, kReLU6, kSiLU };

struct Conv2dNormActivationOptions {
  int64_t kernel = 3;  // odd
  int64_t stride = 1;
  int64_t groups = 1;
  ConvActivation activation = ConvActivation::kReLU;
  bool init = true;  // as in Conv2dOptions
};

/// activation(norm(conv(x))). The padding keeps the number of rows and columns for stride 1.
/// [N,in,H,W] → [N,out,ceil(H/stride),ceil(W/stride)]. State names: "0" (the convolution, without
/// bias) and "1" (the batch norm).
class LATHE_API Conv2dNormActivation final : public Module {
 public:
  /// throws: ValueError for an even kernel; what Conv2d throws.
  Conv2dNormActivation(int64_t in, int64_t out, const Conv2dNormActivationOptions& options = {});
  Conv2dNormActivation(Module& parent, const std::string& name, int64_t in, int64_t out,
                       const Conv2dNormActivationOptions& options = {})
      : Conv2dNormActivation(in, out, options) {
    join(parent, name);
  }

  Tensor forward(const Tensor& x) override;
  ConvActivation activation() const { return activation_; }

  Conv2d conv;
  BatchNorm2d norm;

 private:
  ConvActivation activation_;
};

/// x · sigmoid(fc2(silu(fc1(m)))), where m is the mean of each channel of each sample.
/// fc1 and fc2 are 1x1 convolutions from `channels` to `squeezed` and back.
/// ref: Hu, Shen, Sun 2018 (arXiv:1709.01507); with silu as in EfficientNet.
class LATHE_API SqueezeExcitation final : public Module {
 public:
  SqueezeExcitation(int64_t channels, int64_t squeezed, bool init = true);
  SqueezeExcitation(Module& parent, const std::string& name, int64_t channels, int64_t squeezed,
                    bool init = true)
      : SqueezeExcitation(channels, squeezed, init) {
    join(parent, name);
  }
  Tensor forward(const Tensor& x) override;

  Conv2d fc1, fc2;
};

/// Fills every Conv2d in `model` and below: weights kaiming_normal(fan_out), biases 0. Leaves all
/// other parameters as they are.
/// ref: He et al. 2015 (arXiv:1502.01852).
LATHE_API void init_convolutions(Module& model);

}  // namespace lathe::nn
