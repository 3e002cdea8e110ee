// BatchNorm::relu, whose values wait for the convolution behind it, on a GPU or over the emulated
// cuDNN: what happens in between. The op itself: norm_relu_conv2d_test.cpp.
#include <algorithm>
#include <thread>

#include "cudnn_problem.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/conv.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cudnn" * cuda_case());

namespace {

struct Layers {
  nn::BatchNorm2d norm{8};
  nn::Conv2d conv{8, 8, {.kernel = 3, .pad = 1, .bias = false}};
  Tensor x = cast(randn({2, 8, 6, 6}), kF16).contiguous(kChannelsLast).to(kGpu);

  Layers() {
    norm.to(kGpu);
    conv.to(kF16).to(kChannelsLast).to(kGpu);
  }
};

}  // namespace

TEST_CASE("BatchNorm::relu: an input that is written before the values are there is an error") {
  CudnnFixture f;
  Layers layers;
  nn::NormRelu kept = layers.norm.relu(layers.x);
  REQUIRE(kept.waits());
  layers.x.add_(1.0);
  Tensor values;
  CHECK_THROWS_WITH_AS(values = kept, doctest::Contains("x was modified by an in-place operation"),
                       StateError);
  CHECK_THROWS_AS(layers.conv(std::move(kept)), StateError);
  CHECK(layers.norm.num_batches_tracked.item<int64_t>() == 0);
  const Tensor y = layers.norm.relu(layers.x);
  layers.x.add_(1.0);  // later it may be
  CHECK(layers.norm.num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("norm relu conv2d: after the choices are forgotten the split engine is timed again") {
  CudnnFixture f;
  cudnn::set_benchmark(true);
  Layers layers;
  const auto step = [&] {
    const NoGrad guard;
    layers.conv(layers.norm.relu(layers.x));
  };
  step();
  std::thread([&] {
    step();  // finds the choice that the other thread made
    conv_search().clear();
    step();
  }).join();
  int64_t split_engines = 0;
  for (const auto& [key, choice] : conv_search().choices()) {
    for (const ConvEngineResult& result : choice->engines) {
      if (result.info.engine.index != kSplitEngine) continue;
      ++split_engines;
      CHECK(result.outcome == ConvOutcome::kTimed);
      CHECK(result.ms > 0);
    }
  }
  CHECK(split_engines == 2);  // of the op, and of the convolution alone with its sums
}

TEST_SUITE_END();
