// Convolution with bias, residual and relu as one kernel, on a GPU or over the emulated cuDNN: values
// against f64, how it is chosen, what stays split, and a graph in evaluation.
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

TEST_SUITE_BEGIN("cudnn" * cuda_case());

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

/// How far y may be from `want` before it is rounded to f16. A GPU adds products in f32, in an order
/// of the engine's, and a tensor core cuts off where others round: by 2^-23 of a size for each term.
/// The emulated cuDNN adds in f64.
double most_error_of_sums(const Problem& p, const Tensor& want) {
  if (kEmulated) return 1e-6 * max(want).item<double>();
  const auto sizes = [](const Tensor& t) { return abs(cast(t.cpu(), kF64)); };
  const double largest = max(conv2d(sizes(p.x), sizes(p.w), p.opt)).item<double>() +
                         max(sizes(p.bias)).item<double>() + max(sizes(p.residual)).item<double>();
  const auto terms = static_cast<double>(p.w.numel() / p.w.dim(0)) + 2;
  return terms * 0x1p-23 * largest;
}

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

/// How a net comes to compute in f16: it is converted, or Autocast casts.
enum class HalfBy : uint8_t { kConversion, kAutocast };

/// The net as a graph in f16 with each of its blocks' convolutions in one kernel, and split.
/// `layers`: how many convolutions and linear layers are behind one another.
void check_graph(nn::Module& net, int64_t blocks, int64_t convolutions, int64_t layers,
                 HalfBy how) {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  const NoGrad off;
  const Tensor images = randn({4, 3, 8, 8});
  for (int i = 0; i < 3; ++i) net(images);  // running statistics
  net.eval();
  const Tensor want = cast(net(images.narrow(0, 0, 1)), kF64);
  const bool casts = how == HalfBy::kAutocast;
  if (!casts) net.to(kF16);
  net.to(kGpu).to(kChannelsLast);
  const DType dtype = casts ? kF32 : kF16;
  const Tensor x = cast(images.narrow(0, 0, 1), dtype).to(kGpu).contiguous(kChannelsLast);
  const auto in_scope = [&](auto&& call) {
    const Autocast half(kGpu, kF16, casts);
    return call();
  };
  jit::Graph graph = in_scope([&] { return jit::trace(net, x); });
  jit::optimize_for_inference(graph);
  for (const auto& [name, t] : graph.state()) CHECK_MESSAGE(t.dtype() == kF16, name);
  // Each layer rounds its filters and its results to f16.
  const double most = static_cast<double>(layers) * 2 * kHalfRounding;
  Tensors results;
  const auto launches_of = [&](auto&& run) {
    run();  // the first run searches, and folds what is constant
    forget_executions();
    Tensor y;
    const int64_t launches = own_launches([&] { y = run(); });
    CHECK(error_of(y, want) < most);
    results.push_back(cast(y.cpu(), kF64));
    CHECK(executions() == convolutions);
    return launches;
  };
  const auto run = [&] { return graph(x); };
  const Choices searched = search(run);
  choose(searched, kFused);
  const int64_t fused = launches_of(run);
  CHECK(fused_executions() == 2 * blocks);  // all but the stem and the shortcuts
  CHECK(f.dropped() == 0);
  choose(searched, kSplit);
  const int64_t split = launches_of(run);
  const int64_t eager = launches_of([&] { return in_scope([&] { return net(x); }); });
  CHECK(error_of(results[0], results[2]) < most);
  CHECK(error_of(results[1], results[2]) < most);
  MESSAGE("launches of our own kernels: ", fused, ", split ", split, ", by the model ", eager,
          "; off the model's results by ", error_of(results[0], results[2]));
  CHECK(split - fused == 3 * blocks);  // two relus and a sum
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
      for (const FusedOrSplit kind : {kFused, kSplit}) {
        choose(searched, kind);
        forget_executions();
        Tensor y;
        const int64_t launches = own_launches([&] { y = p.run(adds); });
        CHECK(fused_executions() == (kind == kFused ? 1 : 0));
        CHECK(executions() == 1);
        CHECK((launches == 0) == (kind == kFused));
        CHECK(y.dtype() == kF16);
        CHECK(y.is_contiguous(kChannelsLast));
        // Split, there are up to three roundings, of values that may be larger than the result.
        const Tensor error = abs(cast(y.cpu(), kF64) - want);
        const double excess = max(error - want * kHalfRounding).item<double>();
        CHECK(excess <= (kind == kFused ? most_error_of_sums(p, want)
                                        : 2 * kHalfRounding * max(want).item<double>()));
      }
      CHECK(f.dropped() == 0);
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

  // Each other way takes a kernel of our own at least.
  const auto fuses = [&](auto&& call) { return own_launches(call) == 0; };
  Conv2dOptions with = p.opt;
  with.bias = p.bias;
  CHECK(fuses([&] { fused_conv2d(p.x, p.w, with, {.residual = p.residual, .relu = true}); }));
  CHECK(!fuses([&] { fused_conv2d(p.x, p.w, with, {.residual = p.residual}); }));  // no relu
  CHECK(!fuses([&] { fused_conv2d(p.x, p.w, p.opt, {.relu = true}); }));           // no bias
  const Tensor wide = cast(p.residual, kF32), filters = p.w.clone().requires_grad_();
  CHECK(!fuses([&] {
    const Autocast half(kGpu, kF16);
    CHECK(fused_conv2d(p.x, p.w, with, {.residual = wide, .relu = true}).dtype() == kF32);
  }));
  CHECK(!fuses([&] {
    const EnableGrad on;
    fused_conv2d(p.x, filters, with, {.residual = p.residual, .relu = true});
  }));
  CHECK_THROWS_AS(fused_conv2d(p.x, p.w, with, {.residual = p.bias, .relu = true}), ShapeError);
  cudnn::set_benchmark(false);
  CHECK(!fuses([&] { p.run(true); }));
}

TEST_CASE("fused conv2d on a GPU: a half graph has one kernel for each convolution with a relu") {
  for (const HalfBy how : {HalfBy::kConversion, HalfBy::kAutocast}) {
    CAPTURE(how == HalfBy::kAutocast);
    manual_seed(3);
    SmallNet net;
    check_graph(net, 2, 6, 5, how);
  }
}

TEST_CASE("fused conv2d on a GPU: so does ResNet-18" * doctest::skip(kEmulated) *
          doctest::description("takes long over the emulation; by hand with --no-skip") *
          cuda_case()) {
  for (const HalfBy how : {HalfBy::kConversion, HalfBy::kAutocast}) {
    CAPTURE(how == HalfBy::kAutocast);
    manual_seed(3);
    NarrowResNet18 net;
    check_graph(net, 8, 20, 18, how);
  }
}

TEST_SUITE_END();
