// What the models of nn/models.h are made of: multiply-adds, rates of dropout and of stochastic
// depth, initial values, gradients of their blocks. golden_models_test.cpp compares them with
// torchvision.
#include "lathe/nn/models.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "golden_weights.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/init.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace lathe {
namespace {

int64_t macs_of(nn::Module& model, int64_t side) {
  return nn::summary(model, {1, 3, side, side}).macs;
}

TEST_CASE("models: multiply-adds are those that torchvision publishes") {
  // "GFLOPS" of torchvision's tables of weights, to the third digit: 10^9 multiply-adds of an image
  // of 224 x 224. One model of each family, and not the largest.
  const nn::init::Skip skip;
  const auto billions = [](const char* name) {
    const auto model = nn::make_model(name);
    return static_cast<double>(macs_of(*model, 224)) * 1e-9;
  };
  CHECK(std::fabs(billions("resnet18") - 1.814) < 0.0006);
  CHECK(std::fabs(billions("mobilenet_v2") - 0.301) < 0.0006);
  CHECK(std::fabs(billions("efficientnet_b0") - 0.386) < 0.0006);
  // ViT-B/16 from its first two layers: every layer costs the same.
  nn::ViTLayout layout{.patch_size = 16, .layers = 1, .heads = 12, .hidden = 768, .mlp = 3072};
  nn::VisionTransformer one(layout, {});
  layout.layers = 2;
  nn::VisionTransformer two(layout, {});
  const int64_t first = macs_of(one, 224), both = macs_of(two, 224);
  CHECK(std::fabs(static_cast<double>(first + 11 * (both - first)) * 1e-9 - 17.564) < 0.0006);
}

TEST_CASE("models: stochastic depth grows from block to block") {
  const nn::init::Skip skip;
  const auto rates = [](nn::Module& net) {
    std::vector<double> all;
    for (const auto& [name, module] : net.named_modules()) {
      if (const auto* depth = dynamic_cast<const nn::StochasticDepth*>(module)) {
        all.push_back(depth->p());
      }
    }
    return all;
  };
  auto efficient = nn::efficientnet_b0({.stochastic_depth = 0.32});
  std::vector<double> want;
  for (int i = 0; i < 16; ++i) want.push_back(0.32 * i / 16);
  CHECK(rates(efficient) == want);
  auto convnext = nn::convnext_tiny({.stochastic_depth = 0.34});
  want.clear();
  for (int i = 0; i < 18; ++i) want.push_back(0.34 * i / 17);
  CHECK(rates(convnext) == want);
}

TEST_CASE("models: dropout options reach the layers") {
  const nn::init::Skip skip;
  const auto check = [](nn::Module&& net, double p, size_t layers) {
    size_t found = 0;
    for (const auto& [name, module] : net.named_modules()) {
      const auto* dropout = dynamic_cast<const nn::Dropout*>(module);
      if (dropout == nullptr) continue;
      ++found;
      CHECK(dropout->p() == p);
    }
    CHECK(found == layers);
  };
  check(nn::vgg11(), 0.5, 2);
  check(nn::vgg11({.dropout = 0.25}), 0.25, 2);
  check(nn::mobilenet_v2(), 0.2, 1);
  check(nn::mobilenet_v2({.dropout = 0.375}), 0.375, 1);
  check(nn::efficientnet_b0(), 0.2, 1);
  check(nn::efficientnet_b0({.dropout = 0.375}), 0.375, 1);
  const nn::ViTLayout layout{.patch_size = 4, .layers = 2, .heads = 2, .hidden = 4, .mlp = 8};
  check(nn::VisionTransformer(layout, {.image_size = 8}), 0, 7);
  check(nn::VisionTransformer(layout, {.image_size = 8, .dropout = 0.125}), 0.125, 7);
}

TEST_CASE("vit: attention_dropout drops attention's weights, in training alone") {
  manual_seed(4);
  const nn::ViTLayout layout{.patch_size = 4, .layers = 1, .heads = 2, .hidden = 4, .mlp = 8};
  nn::ViTBlock block(layout, {.image_size = 8, .attention_dropout = 1});
  const Tensor x = randn({2, 5, 4});
  // Without a weight that is left, attention gives the bias of its last layer, which begins as 0.
  const auto without = [&] { return (x + block.mlp(block.ln_2(x))).to_vector<float>(); };
  CHECK(block(x).to_vector<float>() == without());
  block.eval();
  CHECK(block(x).to_vector<float>() != without());
}

TEST_CASE("vgg: initial values follow torchvision's rules") {
  manual_seed(5);
  auto net = nn::VGG(std::array{1, 1, 1, 1, 1}, {.classes = 7});
  const auto deviation = [](const Tensor& w) { return std::sqrt(square(w).mean().item<double>()); };
  // Within six standard errors of a normal number's.
  const auto check = [&](const Tensor& w, double want) {
    const auto n = static_cast<double>(w.numel());
    CHECK(std::fabs(w.mean().item<double>()) <= 6 * want / std::sqrt(n));
    CHECK(std::fabs(deviation(w) - want) <= 6 * want / std::sqrt(2 * n));
  };
  const StateDict state = net.state_dict();
  const int64_t channels[] = {64, 128, 256, 512, 512};
  for (int64_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    check(state.at(concat("features.", 3 * i, ".weight")),
          std::sqrt(2.0 / static_cast<double>(9 * channels[i])));
    CHECK(deviation(state.at(concat("features.", 3 * i, ".bias"))) == 0);
  }
  for (const char* layer : {"classifier.0", "classifier.3", "classifier.6"}) {
    CAPTURE(layer);
    check(state.at(concat(layer, ".weight")).narrow(0, 0, 7), 0.01);  // some rows are enough
    CHECK(deviation(state.at(concat(layer, ".bias"))) == 0);
  }
}

/// Compares the slope of sum(net(x)²) along a random direction with central differences, for each
/// parameter or for all at once. In f64, in training.
void check_slope(nn::Module& net, const Tensor& x, bool each) {
  const auto loss = [&] { return sum(square(net(x))); };
  loss().backward();
  auto parameters = net.named_parameters();
  REQUIRE(!parameters.empty());
  // Along all of a deep network's parameters, relus and max-pools bend soon.
  const double step = each ? 1e-6 : 1e-9;
  for (size_t first = 0; first < parameters.size(); first += each ? 1 : parameters.size()) {
    const size_t count = each ? 1 : parameters.size();
    CAPTURE(parameters[first].first);
    double slope = 0;
    Tensors directions;
    const NoGrad off;
    for (size_t i = first; i < first + count; ++i) {
      const Tensor& p = parameters[i].second;
      REQUIRE(p.grad().defined());
      directions.push_back(randn(p.shape(), kF64));
      slope += sum(p.grad() * directions.back()).item<double>();
    }
    const auto loss_at = [&](double t) {
      Tensors before;
      for (size_t i = 0; i < count; ++i) {
        const Tensor& p = parameters[first + i].second;
        before.push_back(p.clone());
        copy_(p, p + directions[i] * t);
      }
      const double value = loss().item<double>();
      for (size_t i = 0; i < count; ++i) copy_(parameters[first + i].second, before[i]);
      return value;
    };
    const double numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
    CHECK_MESSAGE(std::fabs(slope - numeric) <= 1e-4 * (std::fabs(numeric) + 1e-2), "analytic ",
                  slope, ", numeric ", numeric);
  }
}

TEST_CASE("models: gradients of their blocks agree with finite differences") {
  manual_seed(6);
  const auto check = [](nn::Module&& block, const Shape& x) {
    block.to(kF64);
    check_slope(block, randn(x, kF64), true);
  };
  check(nn::Bottleneck(4, 3, 8, 2), {2, 4, 5, 6});
  check(nn::Bottleneck(8, 3, 8, 1), {2, 8, 4, 3});
  check(nn::BasicBlock(4, 6, 2), {2, 4, 5, 6});
  check(nn::ConvNeXtBlock(4, 0.5, 0), {2, 4, 5, 6});
  check(nn::InvertedResidual(4, 4, 1, 3), {2, 4, 5, 6});
  check(nn::MBConv({.in = 4, .out = 4, .kernel = 5, .expand = 3}), {2, 4, 5, 6});
  const nn::ViTLayout layout{.patch_size = 4, .layers = 1, .heads = 2, .hidden = 4, .mlp = 8};
  check(nn::ViTBlock(layout, {.image_size = 8}), {2, 5, 4});
}

TEST_CASE("models: gradients of VGG's convolutions agree with finite differences") {
  manual_seed(7);
  auto net = [] {
    const nn::init::Skip skip;  // the classifier's 100 million weights are never touched
    return nn::VGG(std::array{1, 1, 1, 1, 1}, {.classes = 7, .batch_norm = true});
  }();
  net.features.to(kF64);
  net.features.load_state_dict(test::golden_weights(net.features, "features."));
  check_slope(net.features, randn({2, 3, 32, 32}, kF64), false);
}

TEST_CASE("vit: sizes that are not positive are refused") {
  const auto refused = [](const nn::ViTLayout& layout, const nn::ViTOptions& options,
                          const char* text) {
    CHECK_THROWS_WITH_AS(nn::VisionTransformer(layout, options), doctest::Contains(text),
                         ValueError);
  };
  const nn::ViTLayout good{.patch_size = 4, .layers = 1, .heads = 2, .hidden = 4, .mlp = 8};
  for (int64_t nn::ViTLayout::*size :
       {&nn::ViTLayout::patch_size, &nn::ViTLayout::layers, &nn::ViTLayout::heads,
        &nn::ViTLayout::hidden, &nn::ViTLayout::mlp}) {
    for (const int64_t bad : {0, -1}) {
      nn::ViTLayout layout = good;
      layout.*size = bad;
      refused(layout, {.image_size = 8}, "must be positive");
    }
  }
  refused({}, {}, "patch_size 0, layers 0, heads 0, hidden 0 and mlp 0 must be positive");
  refused(good, {.classes = 0, .image_size = 8}, "classes must be positive, got 0");
  refused(good, {.image_size = 0}, "an image_size of 0");
  refused(good, {.image_size = 8, .in_channels = 0}, "Conv2d");
  nn::ViTLayout other = good;
  other.heads = 3;
  refused(other, {.image_size = 8}, "3 heads do not divide a size of 4");
  other = good;
  other.mlp = 0;
  CHECK_THROWS_AS(nn::ViTBlock(other, {}), ValueError);
}

}  // namespace
}  // namespace lathe
