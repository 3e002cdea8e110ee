// The convolutions of a model, and the least time for one.
#include "lathe/train/plan/conv_layers.h"

#include <doctest/doctest.h>

#include "lathe/nn/resnet.h"

namespace lathe::plan {
namespace {

TEST_CASE("conv layers: ResNet-18 for CIFAR-10 has 20 convolutions, 11 of them different") {
  auto model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const auto layers = conv_layers(model, {128, 3, 32, 32});
  REQUIRE(layers.size() == 11);
  int64_t count = 0;
  double operations = 0;
  for (const ConvLayer& layer : layers) {
    count += layer.count;
    operations += static_cast<double>(layer.count) * conv_operations(layer.sizes);
    CHECK(layer.sizes.N == 128);
    CHECK(layer.first == (layer.name == "conv1"));
  }
  CHECK(count == 20);
  // 0.5558 G multiply-adds per image (tests/nn/weights_test.cpp), less the last layer's 512 x 10.
  CHECK(operations == doctest::Approx(2.0 * 128 * (555'422'720 + 0.0)).epsilon(1e-3));
  CHECK(layers[0].sizes.C == 3);
  CHECK(layers[1].name == "layer1.0.conv1");
  CHECK(layers[1].count == 4);
  CHECK(model.is_training());
  CHECK(conv_layers(model, {1, 3, 32, 32}).size() == 11);  // no hook was left behind
}

TEST_CASE("conv layers: operations, bytes and the roofline of one problem") {
  Conv2dGeometry g{.N = 2, .C = 4, .H = 5, .W = 5, .K = 6, .R = 3, .S = 3, .P = 3, .Q = 3};
  g.stride = 1;
  g.dilation = 1;
  g.groups = 2;
  CHECK(conv_operations(g) == 2.0 * (2 * 6 * 3 * 3) * (4 / 2 * 3 * 3));
  CHECK(conv_bytes(g, kF16) == 2.0 * (2 * 4 * 25 + 6 * 2 * 9 + 2 * 6 * 9));
  CHECK(conv_bytes(g, kF32) == 2 * conv_bytes(g, kF16));
  CHECK(Roofline{1e3, 1e9}.seconds(g, kF32) == conv_operations(g) / 1e3);
  CHECK(Roofline{1e9, 1e3}.seconds(g, kF32) == conv_bytes(g, kF32) / 1e3);
}

TEST_CASE("conv layers: the roofline's chart has the roof, and a dot for each pass") {
  // A roof of 100 GFLOP/s that begins at 10 operations per byte.
  const std::string svg =
      roofline_svg("t", {100e9, 10e9},
                   {{"forward", 20e9, 1e9, 0.5}, {"forward", 2e9, 1e9, 1}, {"dw", 5e9, 1e9, 1}});
  const auto count = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  CHECK(count("class=\"line\"") == 1);
  CHECK(count("class=\"line dots\"") == 2);
  CHECK(count("h0") == 3);
  CHECK(count("> forward") == 1);
}

}  // namespace
}  // namespace lathe::plan
