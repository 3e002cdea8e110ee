// The table of models by name.
#include "lathe/nn/models.h"

#include <string>

namespace lathe::nn {

namespace {

using Made = std::unique_ptr<Module>;

template <ResNet (*maker)(const ResNetOptions&)>
Made resnet(const ModelOptions& o) {
  return Made(
      new auto(maker({.classes = o.classes, .stem = o.stem, .in_channels = o.in_channels})));
}
template <VGG (*maker)(const VggOptions&), bool batch_norm>
Made vgg(const ModelOptions& o) {
  return Made(new auto(
      maker({.classes = o.classes, .batch_norm = batch_norm, .in_channels = o.in_channels})));
}
template <VisionTransformer (*maker)(const ViTOptions&)>
Made vit(const ModelOptions& o) {
  return Made(new auto(
      maker({.classes = o.classes, .image_size = o.image_size, .in_channels = o.in_channels})));
}
template <class T, class Options, T (*maker)(const Options&)>
Made simple(const ModelOptions& o) {
  return Made(new auto(maker({.classes = o.classes, .in_channels = o.in_channels})));
}
template <CifarResNet (*maker)(const CifarResNetOptions&)>
constexpr auto kCifar = simple<CifarResNet, CifarResNetOptions, maker>;

// clang-format off
constexpr ModelKind kKinds[] = {
    // name, designed for, smallest, patch, stem
    {"resnet18", 224, 1, 1, true, resnet<resnet18>},
    {"resnet34", 224, 1, 1, true, resnet<resnet34>},
    {"resnet50", 224, 1, 1, true, resnet<resnet50>},
    {"resnet101", 224, 1, 1, true, resnet<resnet101>},
    {"resnet152", 224, 1, 1, true, resnet<resnet152>},
    {"wide_resnet50_2", 224, 1, 1, true, resnet<wide_resnet50_2>},
    {"wide_resnet101_2", 224, 1, 1, true, resnet<wide_resnet101_2>},
    {"resnet8", 32, 1, 1, false, kCifar<resnet8>},
    {"resnet20", 32, 1, 1, false, kCifar<resnet20>},
    {"resnet32", 32, 1, 1, false, kCifar<resnet32>},
    {"resnet44", 32, 1, 1, false, kCifar<resnet44>},
    {"resnet56", 32, 1, 1, false, kCifar<resnet56>},
    {"cifarnet", 32, 9, 1, false, simple<CifarNet, CifarNetOptions, cifarnet>},
    {"cifarnet_wide", 32, 9, 1, false, simple<CifarNet, CifarNetOptions, cifarnet_wide>},
    {"vgg11", 224, 32, 1, false, vgg<vgg11, false>},
    {"vgg13", 224, 32, 1, false, vgg<vgg13, false>},
    {"vgg16", 224, 32, 1, false, vgg<vgg16, false>},
    {"vgg19", 224, 32, 1, false, vgg<vgg19, false>},
    {"vgg11_bn", 224, 32, 1, false, vgg<vgg11, true>},
    {"vgg13_bn", 224, 32, 1, false, vgg<vgg13, true>},
    {"vgg16_bn", 224, 32, 1, false, vgg<vgg16, true>},
    {"vgg19_bn", 224, 32, 1, false, vgg<vgg19, true>},
    {"mobilenet_v2", 224, 1, 1, false, simple<MobileNetV2, MobileNetV2Options, mobilenet_v2>},
    {"efficientnet_b0", 224, 1, 1, false, simple<EfficientNet, EfficientNetOptions, efficientnet_b0>},
    {"convnext_tiny", 224, 32, 1, false, simple<ConvNeXt, ConvNeXtOptions, convnext_tiny>},
    {"vit_s_16", 224, 16, 16, false, vit<vit_s_16>},
    {"vit_b_16", 224, 16, 16, false, vit<vit_b_16>},
};
// clang-format on

}  // namespace

std::span<const ModelKind> model_kinds() { return kKinds; }

const ModelKind* find_model_kind(std::string_view name) {
  for (const ModelKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::unique_ptr<Module> make_model(std::string_view name, const ModelOptions& options) {
  if (const ModelKind* kind = find_model_kind(name)) return kind->make(options);
  std::string known;
  for (const ModelKind& kind : kKinds) known += concat(known.empty() ? "" : ", ", kind.name);
  LATHE_FAIL(ValueError, "make_model: no model \"", name, "\" (there are: ", known, ")");
}

}  // namespace lathe::nn
