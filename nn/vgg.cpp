// VGG: layers and initial values.
#include "lathe/nn/vgg.h"

#include <algorithm>
#include <array>

#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/pool2d.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

constexpr int64_t kSmallest = 32;  // five max-pools halve the image
constexpr int64_t kPooled = 7;     // rows and columns that the first linear layer reads

void add_linear(Sequential& layers, int64_t in, int64_t out) {
  const Linear& layer = layers.add<Linear>(in, out, LinearOptions{.init = false});
  init::normal_(layer.weight, 0, 0.01);
  init::zeros_(layer.bias);
}

}  // namespace

VGG::VGG(std::span<const int, 5> stages, const VggOptions& options) {
  int64_t in = options.in_channels, out = 64;
  for (const int convolutions : stages) {
    for (int i = 0; i < convolutions; ++i) {
      const Conv2d& conv =
          features.add<Conv2d>(in, out, Conv2dOptions{.kernel = 3, .pad = 1, .init = false});
      init::kaiming_normal_(conv.weight, {.mode = init::kFanOut});
      init::zeros_(conv.bias);
      if (options.batch_norm) features.add<BatchNorm2d>(out);
      features.add<ReLU>();
      in = out;
    }
    features.add<MaxPool2d>(2);
    out = std::min<int64_t>(2 * out, 512);
  }
  add_linear(classifier, in * kPooled * kPooled, 4096);
  classifier.add<ReLU>();
  classifier.add<Dropout>(options.dropout);
  add_linear(classifier, 4096, 4096);
  classifier.add<ReLU>();
  classifier.add<Dropout>(options.dropout);
  add_linear(classifier, 4096, options.classes);
}

Tensor VGG::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) >= kSmallest && x.dim(3) >= kSmallest,
              "VGG: images need at least ", kSmallest, " x ", kSmallest, " pixels (x: ", x, ")");
  return classifier(flatten(adaptive_avg_pool2d(features(x), kPooled), 1));
}

VGG vgg11(const VggOptions& options) { return VGG(std::array{1, 1, 2, 2, 2}, options); }
VGG vgg13(const VggOptions& options) { return VGG(std::array{2, 2, 2, 2, 2}, options); }
VGG vgg16(const VggOptions& options) { return VGG(std::array{2, 2, 3, 3, 3}, options); }
VGG vgg19(const VggOptions& options) { return VGG(std::array{2, 2, 4, 4, 4}, options); }

}  // namespace lathe::nn
