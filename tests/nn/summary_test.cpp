// The table of a model, with torchinfo's numbers.
#include "lathe/nn/summary.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "lathe/nn/activation.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/models.h"
#include "lathe/nn/pool2d.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

using namespace lathe;
using nn::Trainable;

namespace {

/// A number as torchinfo prints it: in units of 10^6, to two digits.
double millions(int64_t count) { return std::round(static_cast<double>(count) / 1e4) / 100; }

/// The MNIST network in torchinfo's tests and README.
struct MnistNet : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 10, {.kernel = 5}};
  nn::Conv2d conv2{*this, "conv2", 10, 20, {.kernel = 5}};
  nn::Dropout conv2_drop{*this, "conv2_drop", 0.5};
  nn::Linear fc1{*this, "fc1", 320, 50};
  nn::Linear fc2{*this, "fc2", 50, 10};

  Tensor forward(const Tensor& in) override {
    const Tensor x = max_pool2d(conv1(in), {.kernel = 2});
    const Tensor y = max_pool2d(conv2_drop(conv2(x)), {.kernel = 2});
    return fc2(fc1(flatten(y, 1)));
  }
};

/// Elements of the parameters called "bias", and of all with one dimension.
int64_t vectors_of(const nn::Module& model) {
  int64_t count = 0;
  for (const Tensor& p : model.parameters()) count += p.ndim() == 1 ? p.numel() : 0;
  return count;
}

}  // namespace

TEST_CASE("summary: columns and memory of a small network are torchinfo's") {
  // https://github.com/TylerYep/torchinfo, tests/test_output/single_input_all_cols.out
  MnistNet net;
  const nn::Summary s = nn::summary(net, {7, 1, 28, 28});
  REQUIRE(s.rows.size() == 6);
  CHECK(s.rows[0].kernel.empty());
  CHECK(s.rows[0].input == Shape{7, 1, 28, 28});
  CHECK(s.rows[0].output == Shape{7, 10});
  CHECK(s.rows[1].kernel == Shape{5, 5});
  CHECK(s.rows[1].output == Shape{7, 10, 24, 24});
  CHECK(s.rows[2].input == Shape{7, 10, 12, 12});
  CHECK(s.rows[2].parameters == 5020);
  CHECK(s.rows[3].trainable == Trainable::kNoParameters);
  CHECK(s.rows[4].input == Shape{7, 320});
  CHECK(s.parameters == 21'840);
  // torchinfo counts an addition of each bias as well: 1,048,320 + 2,248,960 + 112,350 + 3,570
  CHECK(s.macs + 7 * (10 * 24 * 24 + 20 * 8 * 8 + 50 + 10) == 3'413'200);
  // "Input size (MB): 0.02, Forward/backward pass 0.40, Params 0.09, Estimated Total 0.51"
  CHECK(millions(s.input_bytes) == 0.02);
  CHECK(millions(s.pass_bytes) == 0.40);
  CHECK(millions(s.parameter_bytes) == 0.09);
  CHECK(millions(s.total_bytes()) == 0.51);
  const std::string text = nn::summary_text(s);
  CHECK(text.find("73.49 %") != std::string::npos);
  CHECK(text.find("22.99 %") != std::string::npos);
}

TEST_CASE("summary: totals of ResNets are those that torchinfo publishes") {
  // tests/test_output/resnet18_depth_consistency.out, resnet50.out, resnet152.out
  const nn::Summary small = nn::summary(
      *nn::make_model("resnet18", {.classes = 1000, .stem = nn::Stem::kImagenet}), {1, 3, 64, 64});
  CHECK(millions(small.pass_bytes) == 3.25);
  CHECK(millions(small.parameter_bytes) == 46.76);
  CHECK(millions(small.total_bytes()) == 50.06);
  const auto resnet50 = nn::make_model("resnet50", {.classes = 1000, .stem = nn::Stem::kImagenet});
  const nn::Summary s = nn::summary(*resnet50, {2, 3, 224, 224});
  CHECK(s.parameters == 25'557'032);
  CHECK(millions(s.input_bytes) == 1.20);
  CHECK(millions(s.pass_bytes) == 355.66);
  CHECK(millions(s.parameter_bytes) == 102.23);
  CHECK(millions(s.total_bytes()) == 459.10);
  // Its 8.18 G hold one operation for each bias and parameter of a norm, and image.
  CHECK(std::round(static_cast<double>(s.macs + 2 * vectors_of(*resnet50)) / 1e7) == 818);
}

TEST_CASE("summary: what is trained, and images that are no squares") {
  MnistNet net;
  net.conv1.weight.requires_grad_(false);
  net.fc1.weight.requires_grad_(false);
  net.fc1.bias.requires_grad_(false);
  const nn::Summary s = nn::summary(net, {1, 1, 28, 28});
  CHECK(s.rows[0].trainable == Trainable::kSome);
  CHECK(s.rows[1].trainable == Trainable::kSome);
  CHECK(s.rows[2].trainable == Trainable::kAll);
  CHECK(s.rows[4].trainable == Trainable::kNone);
  CHECK(s.trainable == 21'840 - 250 - 16'050);
  const nn::Summary wide = nn::summary(*nn::make_model("resnet18", {}), {2, 3, 32, 96});
  CHECK(wide.rows[1].output == Shape{2, 64, 16, 48});
}

TEST_CASE("summary: kernels of pools, and a table that fits") {
  nn::Sequential net{nn::MaxPool2d({.kernel = {2, 3}}), nn::AvgPool2d(2), nn::ReLU()};
  const nn::Summary s = nn::summary(net, {1, 2, 12, 12});
  CHECK(s.rows[1].kernel == Shape{2, 3});
  CHECK(s.rows[2].kernel == Shape{2, 2});
  CHECK(s.rows[3].kernel.empty());
  CHECK(s.rows[3].input == Shape{1, 2, 3, 2});
  const auto header = [&](int width) {
    const std::string text = nn::summary_text(s, width);
    std::istringstream words(text.substr(0, text.find('\n')));
    std::string word, all;
    while (words >> word) all += word + " ";
    return all;
  };
  CHECK(header(0) == "module kernel input output parameters share multiply-adds trainable ");
  CHECK(header(200) == header(0));
  const auto full = static_cast<int>(nn::summary_text(s).find('\n'));
  CHECK(header(full) == header(0));
  CHECK(header(full - 1) == "module kernel input output parameters share multiply-adds ");
  CHECK(header(20) == "module output parameters multiply-adds ");
}

TEST_CASE("summary: a name of any characters is one cell of its line") {
  nn::Sequential net;
  net.add_named<nn::Linear>("a\nb\x1b[31m\u202e", 2, 2);
  net.add_named<nn::Linear>("größe", 2, 2);
  const std::string text = nn::summary_text(nn::summary(net, {1, 2}));
  CHECK(std::ranges::count(text, '\n') == 4 + 3);
  CHECK(text.find("  Linear (a\\nb\\x1b[31m\\u202e)  -       [1,2]") != std::string::npos);
  CHECK(text.find("  Linear (größe)               -       [1,2]") != std::string::npos);
}
