// ConvNeXt: blocks and initial values.
#include "lathe/nn/convnext.h"

#include "lathe/nn/activation.h"
#include "lathe/nn/init.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

namespace {

struct ConvNeXtStage {
  int64_t channels, blocks;
};
constexpr ConvNeXtStage kTiny[] = {{96, 3}, {192, 3}, {384, 9}, {768, 3}};
constexpr double kBlocks = 18;
constexpr int64_t kSmallestImage = 32;  // strides of 4, 2, 2 and 2
constexpr NormOptions kConvNeXtNorm{.eps = 1e-6};

class Permute final : public Module {
 public:
  explicit Permute(const Dims& order) : order_(order) {}
  Tensor forward(const Tensor& x) override { return permute(x, order_); }

 private:
  Dims order_;
};

void init_layers(Module& model) {
  const auto fill = [](const auto& layer) {
    init::trunc_normal_(layer.weight, {.std = 0.02});
    init::zeros_(layer.bias);
  };
  model.apply([&](Module& module) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(&module)) fill(*conv);
    if (const auto* linear = dynamic_cast<const Linear*>(&module)) fill(*linear);
  });
}

/// A convolution whose windows do not overlap.
Conv2dOptions patches(int64_t side) { return {.kernel = side, .stride = side, .init = false}; }

}  // namespace

ConvNeXtBlock::ConvNeXtBlock(int64_t channels, double scale, double depth)
    : stochastic_depth(*this, "stochastic_depth", depth) {
  layer_scale = parameter("layer_scale", full({channels, 1, 1}, scale, default_dtype()));
  block.add<Conv2d>(channels, channels,
                    Conv2dOptions{.kernel = 7, .pad = 3, .groups = channels, .init = false});
  block.add<Permute>(Dims{0, 2, 3, 1});
  block.add<LayerNorm>(channels, kConvNeXtNorm);
  block.add<Linear>(channels, 4 * channels, LinearOptions{.init = false});
  block.add<GELU>();
  block.add<Linear>(4 * channels, channels, LinearOptions{.init = false});
  block.add<Permute>(Dims{0, 3, 1, 2});
  init_layers(block);
}

Tensor ConvNeXtBlock::forward(const Tensor& x) {
  return add(stochastic_depth(mul(layer_scale, block(x))), x);
}

ConvNeXt::ConvNeXt(const ConvNeXtOptions& options) {
  int64_t in = kTiny[0].channels, number = 0;
  auto& stem = features.add<Sequential>();
  stem.add<Conv2d>(options.in_channels, in, patches(4));
  stem.add<LayerNorm2d>(in, kConvNeXtNorm);
  init_layers(stem);
  for (const ConvNeXtStage& stage : kTiny) {
    if (stage.channels != in) {
      auto& down = features.add<Sequential>();
      down.add<LayerNorm2d>(in, kConvNeXtNorm);
      down.add<Conv2d>(in, stage.channels, patches(2));
      init_layers(down);
      in = stage.channels;
    }
    auto& blocks = features.add<Sequential>();
    for (int64_t i = 0; i < stage.blocks; ++i, ++number) {
      blocks.add<ConvNeXtBlock>(
          in, options.layer_scale,
          options.stochastic_depth * static_cast<double>(number) / (kBlocks - 1));
    }
  }
  classifier.add<LayerNorm2d>(in, kConvNeXtNorm);
  classifier.add<Flatten>();
  classifier.add<Linear>(in, options.classes, LinearOptions{.init = false});
  init_layers(classifier);
}

Tensor ConvNeXt::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) >= kSmallestImage && x.dim(3) >= kSmallestImage,
              "ConvNeXt: images need at least ", kSmallestImage, " x ", kSmallestImage,
              " pixels (x: ", x, ")");
  return classifier(mean(features(x), {2, 3}, {.keepdim = true}));
}

ConvNeXt convnext_tiny(const ConvNeXtOptions& options) { return ConvNeXt(options); }

}  // namespace lathe::nn
