// MobileNetV2: blocks and initial values.
#include "lathe/nn/mobilenet.h"

#include "lathe/nn/conv_norm.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/reduce.h"

namespace lathe::nn {

namespace {

struct InvertedStage {
  int64_t expand, channels, blocks, stride;
};
/// Table 2 of the paper.
constexpr InvertedStage kV2[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kStemWidth = 32, kHeadWidth = 1280;

}  // namespace

InvertedResidual::InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t expand,
                                   bool init)
    : residual_(stride == 1 && in == out) {
  const int64_t wide = in * expand;
  constexpr auto kReLU6 = ConvActivation::kReLU6;
  if (expand != 1) {
    conv.add<Conv2dNormActivation>(
        in, wide, Conv2dNormActivationOptions{.kernel = 1, .activation = kReLU6, .init = init});
  }
  conv.add<Conv2dNormActivation>(
      wide, wide,
      Conv2dNormActivationOptions{
          .stride = stride, .groups = wide, .activation = kReLU6, .init = init});
  conv.add<Conv2d>(wide, out, Conv2dOptions{.kernel = 1, .bias = false, .init = init});
  conv.add<BatchNorm2d>(out);
}

Tensor InvertedResidual::forward(const Tensor& x) {
  const Tensor y = conv(x);
  return residual_ ? add(x, y) : y;
}

MobileNetV2::MobileNetV2(const MobileNetV2Options& options) {
  constexpr auto kReLU6 = ConvActivation::kReLU6;
  features.add<Conv2dNormActivation>(
      options.in_channels, kStemWidth,
      Conv2dNormActivationOptions{.stride = 2, .activation = kReLU6, .init = false});
  int64_t in = kStemWidth;
  for (const InvertedStage& stage : kV2) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      const int64_t stride = i == 0 ? stage.stride : 1;
      features.add<InvertedResidual>(in, stage.channels, stride, stage.expand, false);
      in = stage.channels;
    }
  }
  features.add<Conv2dNormActivation>(
      in, kHeadWidth,
      Conv2dNormActivationOptions{.kernel = 1, .activation = kReLU6, .init = false});
  classifier.add<Dropout>(options.dropout);
  const Linear& head =
      classifier.add<Linear>(kHeadWidth, options.classes, LinearOptions{.init = false});
  init::normal_(head.weight, 0, 0.01);
  init::zeros_(head.bias);
  init_convolutions(features);
}

Tensor MobileNetV2::forward(const Tensor& x) { return classifier(mean(features(x), {2, 3})); }

MobileNetV2 mobilenet_v2(const MobileNetV2Options& options) { return MobileNetV2(options); }

}  // namespace lathe::nn
