// EfficientNet: blocks and initial values.
#include "lathe/nn/efficientnet.h"

#include <algorithm>
#include <cmath>

#include "lathe/nn/conv_norm.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/reduce.h"

namespace lathe::nn {

namespace {

struct MBConvStage {
  int64_t expand, kernel, stride, channels, blocks;
};
/// Table 1 of the paper.
constexpr MBConvStage kB0[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                               {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                               {6, 3, 1, 320, 1}};
constexpr int64_t kStemChannels = 32, kHeadChannels = 1280, kB0Blocks = 16;

}  // namespace

MBConv::MBConv(const MBConvLayout& o, bool init)
    : stochastic_depth(*this, "stochastic_depth", o.stochastic_depth),
      residual_(o.stride == 1 && o.in == o.out) {
  const int64_t wide = o.in * o.expand;
  Conv2dNormActivationOptions how{.kernel = 1, .activation = ConvActivation::kSiLU, .init = init};
  if (o.expand != 1) block.add<Conv2dNormActivation>(o.in, wide, how);
  how.kernel = o.kernel;
  how.stride = o.stride;
  how.groups = wide;
  block.add<Conv2dNormActivation>(wide, wide, how);
  block.add<SqueezeExcitation>(wide, std::max<int64_t>(1, o.in / 4), init);
  how = {.kernel = 1, .activation = ConvActivation::kNone, .init = init};
  block.add<Conv2dNormActivation>(wide, o.out, how);
}

Tensor MBConv::forward(const Tensor& x) {
  const Tensor y = block(x);
  return residual_ ? add(stochastic_depth(y), x) : y;
}

EfficientNet::EfficientNet(const EfficientNetOptions& options) {
  Conv2dNormActivationOptions how{.stride = 2, .activation = ConvActivation::kSiLU, .init = false};
  features.add<Conv2dNormActivation>(options.in_channels, kStemChannels, how);
  int64_t in = kStemChannels, number = 0;
  for (const MBConvStage& stage : kB0) {
    auto& blocks = features.add<Sequential>();
    for (int64_t i = 0; i < stage.blocks; ++i, ++number) {
      const double share = static_cast<double>(number) / kB0Blocks;
      blocks.add<MBConv>(MBConvLayout{.in = in,
                                      .out = stage.channels,
                                      .kernel = stage.kernel,
                                      .stride = i == 0 ? stage.stride : 1,
                                      .expand = stage.expand,
                                      .stochastic_depth = options.stochastic_depth * share},
                         false);
      in = stage.channels;
    }
  }
  how = {.kernel = 1, .activation = ConvActivation::kSiLU, .init = false};
  features.add<Conv2dNormActivation>(in, kHeadChannels, how);
  classifier.add<Dropout>(options.dropout);
  const Linear& head =
      classifier.add<Linear>(kHeadChannels, options.classes, LinearOptions{.init = false});
  const double bound = 1 / std::sqrt(static_cast<double>(options.classes));
  init::uniform_(head.weight, -bound, bound);
  init::zeros_(head.bias);
  init_convolutions(features);
}

Tensor EfficientNet::forward(const Tensor& x) { return classifier(mean(features(x), {2, 3})); }

EfficientNet efficientnet_b0(const EfficientNetOptions& options) { return EfficientNet(options); }

}  // namespace lathe::nn
