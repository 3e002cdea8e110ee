// Batch norm with relu in f16 and NHWC, forward and backward, on the feature maps of three stages
// of ResNet-18: microseconds of one call each, many of them in one CUDA graph. batch_norm_blocks.py
// links it with kernels of 256 and of 512 threads in a block.
//
//     batch_norm_256 BATCH          prints a row of JSON for each feature map
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "lathe/core/capture/cuda_graph.h"

using lathe::Tensor;

namespace {

constexpr int kCalls = 10, kLaunches = 20;

double microseconds(const std::function<void()>& call) {
  for (int i = 0; i < 2; ++i) call();
  lathe::cuda::Graph graph;
  graph.capture([&] {
    for (int i = 0; i < kCalls; ++i) call();
  });
  graph.launch();
  lathe::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) graph.launch();
  lathe::cuda::synchronize();
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / (kCalls * kLaunches);
}

void time_shape(const lathe::Shape& shape) {
  const lathe::Device gpu(lathe::DeviceType::kCUDA);
  const auto images = [&] {
    return lathe::randn(shape, {.dtype = lathe::kF16, .device = gpu})
        .contiguous(lathe::kChannelsLast);
  };
  const Tensor x = images().requires_grad_(), dy = images();
  const Tensor weight = lathe::ones({shape[1]}, {.device = gpu}).requires_grad_();
  const Tensor bias = lathe::zeros({shape[1]}, {.device = gpu}).requires_grad_();
  const auto forward = [&] {
    return lathe::batch_norm_relu(x, weight, bias, {}, {}, {.training = true});
  };
  const Tensor y = forward();
  const double ahead = microseconds([&] {
    const lathe::NoGrad off;
    forward();
  });
  const double back = microseconds([&] {
    lathe::grad({y}, {x, weight, bias}, {.grad_outputs = {dy}, .retain_graph = true});
  });
  std::printf(
      "{\"bench\": \"batch_norm\", \"shape\": \"[%lld,%lld,%lld,%lld]\", \"forward_us\": %.2f, "
      "\"backward_us\": %.2f}\n",
      static_cast<long long>(shape[0]), static_cast<long long>(shape[1]),
      static_cast<long long>(shape[2]), static_cast<long long>(shape[3]), ahead, back);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const int64_t batch = count > 1 ? std::atoll(words[1]) : 512;
  for (const int64_t channels : {64, 128, 256}) {
    const int64_t side = 32 * 64 / channels;
    time_shape({batch, channels, side, side});
  }
}
