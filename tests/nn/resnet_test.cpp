// ResNets: counts, torchvision's names and shapes, and the forward against the same network written
// with plain ops.
#include "lathe/nn/resnet.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/init.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {
namespace {

void check_counts(const nn::Module& model, int64_t parameters, size_t tensors, size_t buffers) {
  CHECK(nn::count_parameters(model) == parameters);
  CHECK(model.parameters().size() == tensors);
  CHECK(model.named_buffers().size() == buffers);
  CHECK(model.state_dict().size() == tensors + buffers);
}

TEST_CASE("resnet: parameter and state counts") {
  check_counts(nn::resnet18(), 11'689'512, 62, 60);
  check_counts(nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar}), 11'173'962, 62, 60);
  check_counts(nn::resnet18({.classes = 100, .stem = nn::Stem::kCifar}), 11'220'132, 62, 60);
  check_counts(nn::resnet34(), 21'797'672, 110, 108);  // torchvision's table
}

TEST_CASE("resnet: counts of the CIFAR family") {
  // Table 6 of the paper: 0.27M, 0.46M, 0.66M, 0.85M. Each block adds 2 convolutions and 2 batch
  // norms.
  check_counts(nn::resnet8(), 75'290, 23, 21);
  check_counts(nn::resnet20(), 269'722, 59, 57);
  check_counts(nn::resnet32(), 464'154, 95, 93);
  check_counts(nn::resnet44(), 658'586, 131, 129);
  check_counts(nn::resnet56(), 853'018, 167, 165);
  CHECK(nn::count_parameters(nn::resnet20({.classes = 100, .in_channels = 1})) ==
        269'722 - 2 * 16 * 9 + 65 * 90);
}

/// torchvision's entries in order, written out from its resnet.py.
std::vector<std::pair<std::string, Shape>> torchvision_entries(int64_t classes, int64_t kernel) {
  std::vector<std::pair<std::string, Shape>> out;
  const auto conv = [&](const std::string& name, int64_t k, int64_t c, int64_t r) {
    out.emplace_back(name + ".weight", Shape{k, c, r, r});
  };
  const auto bn = [&](const std::string& name, int64_t c) {
    for (const char* entry : {".weight", ".bias", ".running_mean", ".running_var"}) {
      out.emplace_back(name + entry, Shape{c});
    }
    out.emplace_back(name + ".num_batches_tracked", Shape{});
  };
  conv("conv1", 64, 3, kernel);
  bn("bn1", 64);
  int64_t in = 64;
  for (int layer = 1; layer <= 4; ++layer) {
    const int64_t width = 32 << layer;
    for (int block = 0; block < 2; ++block) {
      const std::string name = concat("layer", layer, ".", block, ".");
      conv(name + "conv1", width, in, 3);
      bn(name + "bn1", width);
      conv(name + "conv2", width, width, 3);
      bn(name + "bn2", width);
      if (in != width) {
        conv(name + "downsample.0", width, in, 1);
        bn(name + "downsample.1", width);
      }
      in = width;
    }
  }
  out.emplace_back("fc.weight", Shape{classes, 512});
  out.emplace_back("fc.bias", Shape{classes});
  return out;
}

TEST_CASE("resnet18: names, shapes and order are torchvision's") {
  for (const bool cifar : {false, true}) {
    const auto model =
        nn::resnet18({.classes = 10, .stem = cifar ? nn::Stem::kCifar : nn::Stem::kImagenet});
    const auto want = torchvision_entries(10, cifar ? 3 : 7);
    std::map<std::string, Shape> left;
    for (const auto& [name, t] : model.state_dict()) left.emplace(name, t.shape());
    CHECK(left.size() == 122);
    for (const auto& [name, shape] : want) {
      CAPTURE(name);
      REQUIRE(left.contains(name));
      CHECK(left.at(name) == shape);
      left.erase(name);
    }
    CHECK(left.empty());
  }
}

/// The forward of a model in plain, unfused ops over its state dict.
struct PlainNet {
  const StateDict& s;
  bool training;

  Tensor conv(const Tensor& x, const std::string& name, int64_t stride, int64_t pad) const {
    return conv2d(x, s.at(name + ".weight"), {.stride = stride, .pad = pad});
  }
  Tensor bn(const Tensor& x, const std::string& name) const {
    return batch_norm(x, s.at(name + ".weight"), s.at(name + ".bias"),
                      s.at(name + ".running_mean").clone(), s.at(name + ".running_var").clone(),
                      {.training = training});
  }
  Tensor block(const Tensor& x, const std::string& name, int64_t stride, bool option_a) const {
    Tensor y = relu(bn(conv(x, name + "conv1", stride, 1), name + "bn1"));
    y = bn(conv(y, name + "conv2", 1, 1), name + "bn2");
    Tensor shortcut = x;
    if (s.contains(name + "downsample.0.weight")) {
      shortcut = bn(conv(x, name + "downsample.0", stride, 0), name + "downsample.1");
    } else if (option_a && stride == 2) {
      // Every second row and column is a 1x1 max-pool of stride 2.
      const Tensor half = max_pool2d(x, {.kernel = 1, .stride = 2});
      const int64_t extra = (y.dim(1) - x.dim(1)) / 2;
      const Tensor none = zeros({x.dim(0), extra, half.dim(2), half.dim(3)});
      shortcut = cat({none, half, none}, 1);
    }
    return relu(y + shortcut);
  }
  Tensor stages(Tensor x, int stages, int blocks, bool option_a) const {
    for (int layer = 1; layer <= stages; ++layer) {
      for (int b = 0; b < blocks; ++b) {
        x = block(x, concat("layer", layer, ".", b, "."), layer > 1 && b == 0 ? 2 : 1, option_a);
      }
    }
    return linear(adaptive_avg_pool2d(x, 1).flatten(1), s.at("fc.weight"), s.at("fc.bias"));
  }
};

void check_close(const Tensor& a, const Tensor& b, double tolerance) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  REQUIRE(x.size() == y.size());
  double most = 0, difference = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(y[i]));
    difference = std::max(difference, std::abs(x[i] - y[i]));
  }
  CHECK(difference <= tolerance * (most + 1));
}

TEST_CASE(
    "resnet: the forward equals the network written with plain ops, in training and evaluation") {
  manual_seed(1);
  const NoGrad off;
  auto cifar = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  auto imagenet = nn::resnet18({.classes = 10});
  auto small = nn::resnet8({.in_channels = 1});
  for (const bool training : {true, false}) {
    for (nn::Module* model : std::initializer_list<nn::Module*>{&cifar, &imagenet, &small}) {
      model->train(training);
      const StateDict state = model->state_dict().clone();
      const PlainNet plain{state, training};
      const Tensor x = randn({2, model == &small ? 1 : 3, model == &imagenet ? 33 : 16, 16});
      Tensor want;
      if (model == &small) {
        want = plain.stages(relu(plain.bn(plain.conv(x, "conv1", 1, 1), "bn1")), 3, 1, true);
      } else if (model == &cifar) {
        want = plain.stages(relu(plain.bn(plain.conv(x, "conv1", 1, 1), "bn1")), 4, 2, false);
      } else {
        const Tensor y = relu(plain.bn(plain.conv(x, "conv1", 2, 3), "bn1"));
        want = plain.stages(max_pool2d(y, {.kernel = 3, .stride = 2, .pad = 1}), 4, 2, false);
      }
      const Tensor got = (*model)(x);
      CHECK(got.shape() == Shape{2, 10});
      check_close(got, want, 1e-4);
    }
  }
}

TEST_CASE("resnet: every parameter gets a gradient, and training moves the statistics") {
  manual_seed(2);
  auto model = nn::resnet20();
  sum(square(model(randn({2, 3, 32, 32})))).backward();
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad().defined());
    CHECK(sum(abs(p.grad())).item<double>() > 0);
  }
  CHECK(model.bn1.num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("resnet: convolutions start as kaiming_normal(fan_out), batch norms as 1 and 0") {
  manual_seed(3);
  const auto model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const Tensor w = model.state_dict().at("layer3.0.conv1.weight");  // [256,128,3,3]
  const double variance = square(w).mean().item<double>();
  CHECK(variance == doctest::Approx(2.0 / (256 * 9))
                        .epsilon(0.02));  // 294,912 values: 5 standard errors are 1.3 %
  for (const float x : model.state_dict().at("layer1.0.bn2.weight").to_vector<float>())
    CHECK(x == 1.f);
  for (const float x : model.state_dict().at("layer1.0.bn2.bias").to_vector<float>())
    CHECK(x == 0.f);
}

TEST_CASE("resnet: what a seed gives: the layers' own numbers first, then the convolutions'") {
  manual_seed(4);
  const auto model = nn::resnet8();
  const Generator::State after = default_generator().state();
  std::vector<Tensor> convolutions;
  uint64_t own = 0;  // counters of the layers' defaults, drawn or passed over
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.ndim() == 4) convolutions.push_back(p);
    if (p.ndim() == 4 || name.starts_with("fc.")) own += Generator::counters_for(p.numel());
  }
  const Shape fc = model.fc.weight.shape();
  // Members come first, conv1 and fc, then the blocks of the stages.
  default_generator().set_state({4, Generator::counters_for(model.conv1.weight.numel())});
  CHECK(nn::init::uniform_fan_in(fc, fc[1]).to_vector<float>() ==
        model.fc.weight.to_vector<float>());
  default_generator().set_state({4, own});
  for (const Tensor& w : convolutions) {  // a module's children before itself, in order
    const Tensor want = empty_like(w);
    nn::init::kaiming_normal_(want, {.mode = nn::init::kFanOut});
    CHECK(w.to_vector<float>() == want.to_vector<float>());
  }
  CHECK(default_generator().state() == after);
}

TEST_CASE("resnet: a block of its own is filled") {
  manual_seed(5);
  const nn::BasicBlock block(4, 4, 1);
  const double bound = 1 / std::sqrt(4.0 * 9);
  const Tensor w = block.conv2.weight;
  CHECK(w.max().item<double>() <= bound);
  CHECK(w.min().item<double>() >= -bound);
  CHECK(square(w).mean().item<double>() == doctest::Approx(bound * bound / 3).epsilon(0.3));
}

}  // namespace
}  // namespace lathe
