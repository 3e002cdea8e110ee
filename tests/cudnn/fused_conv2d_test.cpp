// Convolution with bias, residual and relu as one kernel, over the emulated cuDNN: values against
// f64, how it is chosen, what stays split, and a graph in evaluation.
#include <cmath>
#include <vector>

#include "../narrow_resnet18.h"
#include "cudnn_problem.h"
#include "fused_choices.h"
#include "lathe/autograd/autocast.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/fused_conv2d.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cudnn_probe;

namespace {

struct Layer {
  std::string name;
  Shape x, w;
  Pair stride, pad;
};
const Layer kLayers[] = {
    {"3x3", {2, 8, 9, 7}, {16, 8, 3, 3}, 1, 1},
    {"3x3, stride 2", {2, 16, 9, 9}, {24, 16, 3, 3}, 2, 1},
    {"1x1", {3, 16, 5, 5}, {32, 16, 1, 1}, 1, 0},
};

/// On the GPU in f16, or the same values on the CPU in f64.
struct Problem {
  Tensor x, w, bias, residual;
  Conv2dOptions opt;

  explicit Problem(const Layer& layer) : opt{.stride = layer.stride, .pad = layer.pad} {
    const auto half = [](const Tensor& t) {
      return cast(t, kF16).contiguous(t.ndim() == 4 ? kChannelsLast : kContiguous).to(kGpu);
    };
    const Conv2dGeometry g = geometry_of({"", layer.x, layer.w, opt});
    const double fan = static_cast<double>(numel_of(layer.w) / layer.w[0]);
    x = half(randn(layer.x));
    w = half(randn(layer.w) * std::sqrt(2 / fan));
    bias = half(randn({layer.w[0]}));
    residual = half(randn(g.y_shape()));
  }

  Tensor run(bool adds) const {
    Conv2dOptions with = opt;
    with.bias = bias;
    return fused_conv2d(x, w, with, {.residual = adds ? residual : Tensor(), .relu = true});
  }
  Tensor in_f64(bool adds) const {
    const auto wide = [](const Tensor& t) { return cast(t.cpu(), kF64); };
    const Tensor y = conv2d(wide(x), wide(w), opt) + wide(bias).reshape({bias.dim(0), 1, 1});
    return relu(adds ? y + wide(residual) : y);
  }
};

/// A stem, a block, and one that changes the shape.
struct SmallNet final : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 8};
  nn::Sequential blocks{*this, "blocks"};

  SmallNet() {
    blocks.add<nn::BasicBlock>(8, 8, 1, true);
    blocks.add<nn::BasicBlock>(8, 16, 2, true);
  }
  Tensor forward(const Tensor& x) override { return blocks(bn1.relu(conv1(x))); }
};

struct Counts {
  size_t convolutions;
  int64_t launches;  // of our own kernels
};

/// The net as a graph in f16 with each of its blocks' convolutions in one kernel, and split.
void check_graph(nn::Module& net, int64_t blocks) {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  const NoGrad off;
  const Tensor images = randn({4, 3, 8, 8});
  for (int i = 0; i < 3; ++i) net(images);  // running statistics
  net.eval();
  const Tensor want = cast(net(images.narrow(0, 0, 1)), kF64);
  net.to(kF16).to(kGpu).to(kChannelsLast);
  const Tensor x = cast(images.narrow(0, 0, 1), kF16).to(kGpu).contiguous(kChannelsLast);
  jit::Graph graph = jit::trace(net, x);
  jit::optimize_for_inference(graph);
  const auto count = [&](auto&& run) {
    run();  // the first run searches, and folds what is constant
    cudnn_probe().executions.clear();
    const uint64_t before = cuda::counters().launches;
    const Tensor y = run();
    const auto launches = static_cast<int64_t>(cuda::counters().launches - before);
    CHECK(error_of(y, want) < 1e-2);
    return Counts{cudnn_probe().executions.size(), launches};
  };
  const auto run = [&] { return graph(x); };
  const Choices searched = search(run);
  choose(searched, kFused);
  const Counts fused = count(run);
  CHECK(fused_executions() == 2 * blocks);  // all but the stem and the shortcuts
  choose(searched, kSplit);
  const Counts split = count(run), eager = count([&] { return net(x); });
  CHECK(fused.convolutions == eager.convolutions);
  CHECK(split.convolutions == eager.convolutions);
  MESSAGE("launches of our own kernels: ", fused.launches, ", split ", split.launches,
          ", by the model ", eager.launches);
  CHECK(split.launches - fused.launches == 3 * blocks);  // two relus and a sum
}

}  // namespace

TEST_CASE("fused conv2d on a GPU: one kernel and the ops one by one agree with f64") {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  manual_seed(1);
  const NoGrad off;
  for (const Layer& layer : kLayers) {
    const Problem p(layer);
    for (const bool adds : {false, true}) {
      INFO(layer.name, " ", adds);
      const Tensor want = p.in_f64(adds);
      const Choices searched = search([&] { p.run(adds); });
      REQUIRE(searched.size() == 1);
      for (const int64_t engine : {kFused, kSplit}) {
        choose(searched, engine);
        cudnn_probe().executions.clear();
        const Tensor y = p.run(adds);
        CHECK(fused_executions() == (engine == kFused ? 1 : 0));
        CHECK(cudnn_probe().executions.size() == 1);
        CHECK(y.dtype() == kF16);
        CHECK(y.is_contiguous(kChannelsLast));
        // One rounding to f16 is half of 2^-10 of a value. Split, there are up to three, of values
        // that may be larger than the result.
        const Tensor error = abs(cast(y.cpu(), kF64) - want);
        const double unit = std::ldexp(1.0, -11);
        const double excess = max(error - want * unit).item<double>();
        const double largest = max(want).item<double>();
        CHECK(excess <= (engine == kFused ? 1e-6 : 2 * unit) * largest);
      }
      conv_search().clear();
    }
  }
}

TEST_CASE("fused conv2d on a GPU: NaN passes, and what a kernel does not take is split") {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  manual_seed(2);
  const NoGrad off;
  const Problem p({"", {2, 8, 5, 5}, {8, 8, 3, 3}, 1, 1});
  choose(search([&] { p.run(true); }), kFused);
  const Tensor plain = p.run(true);
  select(p.residual, 0, 0).fill_(NAN);
  const Tensor y = p.run(true).cpu();
  CHECK(all(isnan(select(y, 0, 0))).item<bool>());
  CHECK(equal(select(y, 0, 1), select(plain.cpu(), 0, 1)));

  const auto fuses = [&](auto&& call) {
    cudnn_probe().executions.clear();
    call();
    return fused_executions() > 0;
  };
  Conv2dOptions with = p.opt;
  with.bias = p.bias;
  CHECK(fuses([&] { fused_conv2d(p.x, p.w, with, {.residual = p.residual, .relu = true}); }));
  CHECK(!fuses([&] { fused_conv2d(p.x, p.w, with, {.residual = p.residual}); }));  // no relu
  CHECK(!fuses([&] { fused_conv2d(p.x, p.w, p.opt, {.relu = true}); }));           // no bias
  CHECK(!fuses([&] {
    const Tensor wide = cast(p.residual, kF32);
    const Autocast half(kGpu, kF16);
    CHECK(fused_conv2d(p.x, p.w, with, {.residual = wide, .relu = true}).dtype() == kF32);
  }));
  CHECK(!fuses([&] {
    const EnableGrad on;
    const Tensor w = p.w.clone().requires_grad_();
    fused_conv2d(p.x, w, with, {.residual = p.residual, .relu = true});
  }));
  CHECK_THROWS_AS(fused_conv2d(p.x, p.w, with, {.residual = p.bias, .relu = true}), ShapeError);
  cudnn::set_benchmark(false);
  CHECK(!fuses([&] { p.run(true); }));
}

TEST_CASE("fused conv2d on a GPU: a half graph has one kernel for each convolution with a relu") {
  manual_seed(3);
  SmallNet net;
  check_graph(net, 2);
}

TEST_CASE("fused conv2d on a GPU: so does ResNet-18" * doctest::skip() *
          doctest::description("takes long; by hand with --no-skip")) {
  manual_seed(3);
  NarrowResNet18 net;
  check_graph(net, 8);
}
