// CifarNet: a network that learns CIFAR-10 in a few epochs, from Jordan's airbench94.
// ref: Jordan 2024 (arXiv:2404.00498) and github.com/KellerJordan/cifar10-airbench.
#pragma once

#include <array>
#include <cstdint>

#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct CifarNetOptions {
  int64_t classes = 10;
  int64_t in_channels = 3;
  std::array<int64_t, 3> widths = {64, 256, 256};  // filters of each group
  bool residual = false;  // true: a third convolution in each group, and a shortcut around two
};

/// [N,in_channels,H,W] → [N,classes]. H and W must be at least 9; the model is designed for 32x32.
///   whiten    a 2x2 convolution with 8·in_channels filters and biases, then GELU
///   groups    three: 3x3 convolution, 2x2 max-pool, batch norm, GELU, 3x3 convolution, batch norm,
///             GELU; with residual also a 3x3 convolution and batch norm after that. The input of
///             the second convolution is then added to the result, and GELU follows.
///   head      max-pooling of what is left, then a linear layer without biases
/// Convolutions of the groups have no biases. The weights of `whiten` and of the batch norms are
/// not trained. Batch norms have an eps of 1e-12 and a momentum of 0.4. Initial values: the first
/// filters of a group's convolution are dirac_, the others the layer's default; the head is
/// N(0, 1/widths[2]). Call whiten_images() before training. Under autocast to bf16 `whiten` is
/// computed in f32, because bf16 is too coarse for it.
/// 1,972,792 parameters by default.
class LATHE_API CifarNet final : public Module {
 public:
  /// throws: what Conv2d and Linear throw, for a width below 1.
  explicit CifarNet(const CifarNetOptions& options = {});
  /// throws: ShapeError for images smaller than 9x9.
  Tensor forward(const Tensor& x) override;

  /// Makes the filters of `whiten` whiten these images (init::whitening_).
  ///   images  [N,in_channels,H,W], floating, normalised as in training; 5000 are enough
  /// throws: what init::whitening_ throws.
  void whiten_images(const Tensor& images);

  Conv2d whiten;
  Sequential groups{*this, "groups"};
  Linear head;
};

LATHE_API CifarNet cifarnet(const CifarNetOptions& options = {});

/// The network of airbench96: widths of 128, 384 and 512, and residual. The options' own widths and
/// residual are not read. 9,918,776 parameters by default.
LATHE_API CifarNet cifarnet_wide(const CifarNetOptions& options = {});

}  // namespace lathe::nn
