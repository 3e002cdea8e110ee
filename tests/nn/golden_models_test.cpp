// torchvision's models: names, shapes and counts of all, and of each family the result for weights
// that are a function of their names. golden_models.h has the numbers; golden_models.py, which made
// it, says how. torch_weights_test.py compares .pth files where PyTorch is installed.
#include "golden_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "golden_weights.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/files/crc32.h"
#include "lathe/nn/init.h"
#include "lathe/nn/models.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;

uint32_t names_of(const nn::Module& net) {
  std::vector<std::string> lines;
  for (const auto& [name, entry] : net.state_dict()) {
    std::string sizes;
    for (const int64_t n : entry.shape()) sizes += concat(sizes.empty() ? "" : ",", n);
    lines.push_back(concat(name, " [", sizes, "]\n"));
  }
  std::ranges::sort(lines);
  std::string all;
  for (const std::string& line : lines) all += line;
  return crc32(all.data(), all.size());
}

TEST_CASE("models: names, shapes and counts are torchvision's") {
  const nn::init::Skip skip;  // the memory of a VGG's weights is never touched
  for (const test::GoldenModel& want : test::kGoldenModels) {
    CAPTURE(want.name);
    const auto net = nn::make_model(want.name);
    CHECK(nn::count_parameters(*net) == want.parameters);
    CHECK(net->state_dict().size() == want.entries);
    CHECK(names_of(*net) == want.names);
  }
}

/// `net` is a model or, with a prefix, the part of one.
void check_result(nn::Module& net, const test::GoldenResult& want, const std::string& prefix = "") {
  const NoGrad off;
  net.to(kF64).eval();
  net.load_state_dict(test::golden_weights(net, prefix));
  const Tensor x = test::uniforms(1000, {2, 3, 32, 32}) * 1.7;
  const std::vector<double> y = net(x).to_vector<double>();
  double square = 0;
  for (const double v : y) square += v * v;
  constexpr double kTolerance = 1e-10;  // f64, some hundred sums deep
  CHECK(std::fabs(std::sqrt(square) - want.norm) <= kTolerance * want.norm);
  for (size_t i = 0; i < std::size(want.values); ++i) {
    const double got = y[i * (y.size() / std::size(want.values))], expected = want.values[i];
    CHECK_MESSAGE(std::fabs(got - expected) <= kTolerance * (std::fabs(expected) + 1), "number ", i,
                  ": got ", got, ", torchvision ", expected);
  }
}

template <class Make>
void check_family(Make make, const test::GoldenResult& want) {
  auto net = [&] {
    const nn::init::Skip skip;
    return make();
  }();
  check_result(net, want);
}

TEST_CASE("models: a network of each family computes what torchvision's does") {
  check_family([] { return nn::resnet50(); }, test::kResNet50);
  check_family([] { return nn::mobilenet_v2(); }, test::kMobileNetV2);
  check_family([] { return nn::efficientnet_b0(); }, test::kEfficientNetB0);
  check_family([] { return nn::convnext_tiny(); }, test::kConvNeXtTiny);
  const nn::ViTLayout layout{.patch_size = 16, .layers = 2, .heads = 6, .hidden = 384, .mlp = 1536};
  check_family([&] { return nn::VisionTransformer(layout, {.image_size = 32}); }, test::kTinyViT);
  const nn::init::Skip skip;
  auto vgg = nn::vgg11({.batch_norm = true});
  check_result(vgg.features, test::kVgg11Features, "features.");
}

// --- what a seed gives ---------------------------------------------------------------------------

struct Moments {
  double mean, deviation;
};
Moments moments_of(const Tensor& w) {
  const double m = w.mean().item<double>();
  return {m, std::sqrt((square(w).mean().item<double>() - m * m))};
}

/// Within six standard errors of N(0, deviation) or of a uniform number of that deviation.
void check_random(const nn::Module& net, const std::string& name, double deviation) {
  CAPTURE(name);
  const Tensor w = net.state_dict().at(name);
  const double error = 6 * deviation / std::sqrt(static_cast<double>(w.numel()));
  const auto [mean, got] = moments_of(w);
  CHECK(std::fabs(mean) <= error);
  CHECK(std::fabs(got - deviation) <= error);
}

void check_constant(const nn::Module& net, const std::string& name, double value) {
  CAPTURE(name);
  const Tensor w = net.state_dict().at(name);
  CHECK(w.min().item<double>() == doctest::Approx(value).epsilon(1e-6));
  CHECK(w.max().item<double>() == doctest::Approx(value).epsilon(1e-6));
}

TEST_CASE("models: initial values follow torchvision's rules") {
  manual_seed(1);
  const auto mobile = nn::mobilenet_v2();
  check_random(mobile, "features.2.conv.0.0.weight", std::sqrt(2.0 / 96));
  check_random(mobile, "features.2.conv.1.0.weight", std::sqrt(2.0 / (96 * 9)));  // per group
  check_random(mobile, "classifier.1.weight", 0.01);
  check_constant(mobile, "classifier.1.bias", 0);
  check_constant(mobile, "features.2.conv.1.1.weight", 1);
  const auto efficient = nn::efficientnet_b0({.classes = 100});
  check_random(efficient, "features.6.1.block.2.fc1.weight", std::sqrt(2.0 / 48));
  check_constant(efficient, "features.6.1.block.2.fc1.bias", 0);
  check_random(efficient, "classifier.1.weight", 0.1 / std::sqrt(3.0));
  const nn::ConvNeXtBlock block(96, 1e-6, 0);
  check_random(block, "block.0.weight", 0.02);
  check_random(block, "block.3.weight", 0.02);
  check_constant(block, "block.5.bias", 0);
  check_constant(block, "layer_scale", 1e-6);
  const nn::VisionTransformer vit(
      {.patch_size = 8, .layers = 1, .heads = 2, .hidden = 64, .mlp = 96},
      {.classes = 10, .image_size = 32});
  // trunc_normal's ends are two units of a standard deviation of 1/14: its values are all inside.
  check_random(vit, "conv_proj.weight", std::sqrt(1.0 / (3 * 64)));
  check_random(vit, "encoder.pos_embedding", 0.02);
  const std::string layer = "encoder.layers.encoder_layer_0.";
  check_random(vit, layer + "self_attention.in_proj_weight", std::sqrt(2.0 / (64 + 192)));
  check_random(vit, layer + "self_attention.out_proj.weight", 1 / std::sqrt(3.0 * 64));
  check_random(vit, layer + "mlp.0.weight", std::sqrt(2.0 / (64 + 96)));
  check_random(vit, layer + "mlp.3.bias", 1e-6);
  for (const char* zero :
       {"class_token", "conv_proj.bias", "heads.head.weight", "heads.head.bias"}) {
    check_constant(vit, zero, 0);
  }
  check_constant(vit, layer + "self_attention.in_proj_bias", 0);
  check_constant(vit, layer + "self_attention.out_proj.bias", 0);
  check_random(nn::Bottleneck(64, 64, 256, 1), "conv3.weight", 1 / std::sqrt(3.0 * 64));
}

TEST_CASE("models: every parameter gets a gradient, and training drops branches and elements") {
  manual_seed(2);
  for (const char* name : {"mobilenet_v2", "efficientnet_b0"}) {
    const auto net = nn::make_model(name, {.classes = 10});
    sum(square((*net)(randn({2, 3, 32, 32})))).backward();
    for (const auto& [parameter, p] : net->named_parameters()) {
      CAPTURE(name);
      CAPTURE(parameter);
      REQUIRE(p.grad().defined());
    }
  }
  nn::VisionTransformer vit({.patch_size = 8, .layers = 1, .heads = 2, .hidden = 16, .mlp = 32},
                            {.classes = 10, .image_size = 16, .dropout = 0.5});
  nn::init::normal_(vit.state_dict().at("heads.head.weight"), 0, 1);
  const Tensor x = randn({2, 3, 16, 16});
  sum(square(vit(x))).backward();
  for (const auto& [parameter, p] : vit.named_parameters()) {
    CAPTURE(parameter);
    REQUIRE(p.grad().defined());
  }
  CHECK(vit(x).to_vector<float>() != vit(x).to_vector<float>());
  vit.eval();
  CHECK(vit(x).to_vector<float>() == vit(x).to_vector<float>());
}

TEST_CASE("models: errors say what there is, and which images a model takes") {
  CHECK(message_of<ValueError>([] { nn::make_model("resnet19"); }).find("resnet18, resnet34") !=
        std::string::npos);
  const nn::init::Skip skip;
  const Tensor small = test::uniforms(1, {1, 3, 31, 31}).to(kF32);
  CHECK(message_of<ShapeError>([&] {
          (*nn::make_model("vgg11", {.classes = 10}))(small);
        }).find("images need at least 32 x 32 pixels") != std::string::npos);
  CHECK(message_of<ShapeError>([&] {
          (*nn::make_model("convnext_tiny", {.classes = 10}))(small);
        }).find("images need at least 32 x 32 pixels") != std::string::npos);
  CHECK(message_of<ShapeError>([&] {
          (*nn::make_model("vit_s_16", {.image_size = 32}))(small);
        }).find("made for images of 32 x 32 pixels") != std::string::npos);
  CHECK(message_of<ValueError>([&] {
          nn::make_model("vit_s_16", {.image_size = 40});
        }).find("40 is no multiple of the patch size 16") != std::string::npos);
}

}  // namespace
}  // namespace lathe
