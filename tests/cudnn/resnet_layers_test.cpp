// Gradients of every layer of ResNet-18 and ResNet-34 in f16, fused and split, against f64: on a GPU,
// or over the emulated cuDNN. Each layer gets numbers of its own, so that its error is not that of
// the layers before it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cudnn_problem.h"
#include "fused_choices.h"
#include "lathe/ops/batch_norm_conv2d.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// What stands around a convolution: behind the relu of the norm before it, or before a norm.
enum class Kind { kNormReluConv, kConvNorm };

struct Layer {
  std::string type, name;
  Kind kind;
  int64_t in, out, filter, stride, size;
};

/// The convolutions of both networks, each kind of them once: ResNet-34 has more blocks, of the
/// same layers. Images are small, but each norm has 16 values of a channel at least: the fewer it
/// has, the smaller can their variance be, which errors are divided by.
std::vector<Layer> layers_of_resnet(int64_t narrow) {
  std::vector<Layer> all = {{"stem", "conv1", Kind::kConvNorm, 3, 64 / narrow, 3, 1, 8}};
  constexpr int64_t kSize = 4;
  int64_t in = 64 / narrow;
  for (int stage = 1; stage <= 4; ++stage) {
    const int64_t out = (32 << stage) / narrow;
    const std::string name = concat("layer", stage);
    if (in != out) {
      all.push_back({"stride 2", name + ".0.conv1", Kind::kConvNorm, in, out, 3, 2, kSize});
      all.push_back({"shortcut", name + ".0.downsample", Kind::kConvNorm, in, out, 1, 2, kSize});
    }
    all.push_back({"3x3", name + ".1.conv1", Kind::kConvNorm, out, out, 3, 1, kSize});
    all.push_back({"relu, 3x3", name + ".0.conv2", Kind::kNormReluConv, out, out, 3, 1, kSize});
    in = out;
  }
  return all;
}

/// On the GPU as training has them, or on the CPU the same values in f64.
struct Problem {
  Tensor x, w, weight, bias, dy;

  Tensors leaves() const { return {x, w, weight, bias}; }
  Problem in_f64() const {
    const auto wide = [](const Tensor& t) { return cast(t.detach().cpu(), kF64).clone(); };
    return {wide(x), wide(w), wide(weight), wide(bias), wide(dy)};
  }
};
constexpr const char* kNames[] = {"dx", "dw", "dweight", "dbias"};

Problem problem_of(const Layer& layer) {
  constexpr int64_t kBatch = 4;
  const auto half = [](const Tensor& t) {
    return cast(t, kF16).contiguous(kChannelsLast).to(kGpu);
  };
  const double fan = static_cast<double>(layer.in * layer.filter * layer.filter);
  const int64_t after = (layer.size - 1) / layer.stride + 1;
  const int64_t normed = layer.kind == Kind::kNormReluConv ? layer.in : layer.out;
  const Tensor shift = randn({1, layer.in, 1, 1});
  return {half(randn({kBatch, layer.in, layer.size, layer.size}) * 1.5 + shift),
          half(randn({layer.out, layer.in, layer.filter, layer.filter}) * std::sqrt(2 / fan)),
          (rand({normed}) + 0.5).to(kGpu), (randn({normed}) * 0.3).to(kGpu),
          half(randn({kBatch, layer.out, after, after}))};
}

/// The gradients of x, w, weight and bias.
Tensors gradients(const Layer& layer, const Problem& p) {
  for (const Tensor& t : p.leaves()) {
    t.requires_grad_();
    t.set_grad({});
  }
  const DType wide = p.weight.dtype();
  const int64_t normed = p.weight.numel();
  const TensorOptions here{.dtype = wide, .device = p.weight.device()};
  const BatchNormTensors norm{p.weight, p.bias, zeros({normed}, here), ones({normed}, here)};
  const Conv2dOptions conv{.stride = layer.stride, .pad = layer.filter / 2};
  Tensor y;
  if (layer.kind == Kind::kNormReluConv) {
    y = batch_norm_relu_conv2d(p.x, norm, p.w, {.training = true}, conv);
  } else {
    y = batch_norm(conv2d(p.x, p.w, conv), norm.weight, norm.bias, norm.running_mean,
                   norm.running_var, {.training = true});
  }
  sum(cast(y, wide) * cast(p.dy, wide)).backward();
  Tensors all;
  for (const Tensor& t : p.leaves()) all.push_back(t.grad().clone());
  return all;
}

/// The largest error of each type of layer.
using Errors = std::map<std::string, std::vector<double>>;

// Rounding to f16 moves a number by kHalfRounding of itself at most: the convolution's result once,
// its gradient once, and the gradient's result once. Fused, the factors of the normalisation are
// rounded too. Sums in f32 have no part in it, in whatever order. Measured: docs/results/fused-gradients.json.
double bound_of(const std::string& type, FusedOrSplit kind) {
  const double roundings = type == "relu, 3x3" && kind == kFused ? 4 : 3;
  return roundings * kHalfRounding;
}

void check_layers(int64_t narrow) {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  cudnn::set_search_limits({.ms = 1e-3});  // which engine is fast does not matter: choose() decides
  manual_seed(1);
  Errors errors[2];
  for (const Layer& layer : layers_of_resnet(narrow)) {
    INFO(layer.name);
    const Problem p = problem_of(layer);
    const Tensors want = gradients(layer, p.in_f64());
    const auto step = [&] { gradients(layer, p); };
    // A convolution before a norm has one key, whose choice leads to no others.
    Choices searched;
    if (layer.kind == Kind::kNormReluConv) {
      searched = search(step);
    } else {
      step();
      searched = fused_choices();
    }
    // The stem's three channels are no multiple of eight.
    const int64_t keys = layer.kind == Kind::kNormReluConv ? 4 : layer.in % 8 == 0 ? 1 : 0;
    CHECK(std::ssize(searched) == keys);
    for (const FusedOrSplit kind : {kSplit, kFused}) {
      choose(searched, kind);
      forget_executions();
      const Tensors got = gradients(layer, p);
      // Of the one op's four keys, its convolution with sums alone is one of the split engine.
      CHECK(fused_executions() == (kind == kSplit ? 0 : keys == 4 ? 3 : keys));
      std::vector<double>& largest = errors[kind == kFused][layer.type];
      largest.resize(got.size());
      for (size_t i = 0; i < got.size(); ++i)
        largest[i] = std::max(largest[i], error_of(got[i], want[i]));
    }
    conv_search().clear();
  }
  CHECK(f.dropped() == 0);
  for (const FusedOrSplit kind : {kSplit, kFused}) {
    for (const auto& [type, largest] : errors[kind == kFused]) {
      std::string text;
      for (size_t i = 0; i < largest.size(); ++i) {
        INFO(type, " ", std::string(kNames[i]), kind == kFused ? " fused" : " split");
        CHECK(largest[i] < bound_of(type, kind));
        text += concat(" ", kNames[i], " ", largest[i]);
      }
      MESSAGE(type, std::string(kind == kFused ? ", fused:" : ", split:"), text);
    }
  }
}

}  // namespace

TEST_CASE("resnet layers: gradients fused and split agree with f64 in every layer" * cuda_case()) {
  check_layers(8);
}

TEST_CASE("resnet layers: so they do with all channels" * doctest::skip(kEmulated) *
          doctest::description("takes long over the emulation; by hand with --no-skip") *
          cuda_case()) {
  check_layers(1);
}
