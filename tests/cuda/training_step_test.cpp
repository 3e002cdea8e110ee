// What a training step may not do on a GPU: wait for it, or ask the driver for memory.
#include "../cuda_case.h"
#include "lathe/core/copy.h"
#include "lathe/lathe.h"

using namespace lathe;

namespace {

/// Launches of our own kernels in a training step of ResNet-8 on NHWC images, once it is warm.
uint64_t launches_of_a_step(MemoryFormat filters, bool half) {
  const Device gpu(DeviceType::kCUDA);
  manual_seed(2);
  nn::CifarResNet net = nn::resnet8();
  net.to(filters).to(gpu);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  optim::GradScaler scaler({.enabled = half});
  const Tensor x = randn({2, 3, 8, 8}).contiguous(kChannelsLast).to(gpu);
  const Tensor y = tensor({1, 3}).to(kI64).to(gpu);
  uint64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    before = cuda::counters().launches;
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast scope(gpu, kF16, half);
      loss = cross_entropy(net(x), y);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    scaler.step(optimizer);
    scaler.update();
  }
  return cuda::counters().launches - before;
}

}  // namespace

TEST_CASE("training step: filters stored channels-last are neither copied in nor out" *
          test::cuda_case()) {
  // ResNet-8 has 7 filters of 3x3. Row-major ones are copied for the forward pass and for the input
  // gradient, and their gradients back; the images need no gradient.
  constexpr uint64_t kCopies = 7 + 6 + 7;
  const uint64_t rows = launches_of_a_step(kContiguous, false);
  const uint64_t last = launches_of_a_step(kChannelsLast, false);
  MESSAGE("launches per step: ", rows, " with row-major filters, ", last, " with channels-last");
  CHECK(rows - last == kCopies);
  // Half types fill up the 3 channels of the images, so that filter is copied either way.
  CHECK(launches_of_a_step(kContiguous, true) - launches_of_a_step(kChannelsLast, true) ==
        kCopies - 2);
}

TEST_CASE("training step: no wait for the GPU, and no memory from the driver once it is warm" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  manual_seed(1);
  nn::CifarResNet net = nn::resnet8();
  net.to(gpu);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  const Tensor images = randn({2, 3, 8, 8}).contiguous(kChannelsLast).pin_memory();
  const Tensor labels = tensor({1, 3}).to(kI64).pin_memory();
  const ScoreTally tally = make_score_tally(gpu);

  cuda::Counters warm;
  constexpr int kWarm = 2, kSteps = 4;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kWarm) warm = cuda::counters();
    const Tensor x = empty_strided(images.shape(), images.strides(), kF32, gpu);
    const Tensor y = empty(labels.shape(), {.dtype = kI64, .device = gpu});
    copy_values_async(x, images);
    copy_values_async(y, labels);
    optimizer.zero_grad();
    const Tensor scores = net(x);
    const Tensor loss = cross_entropy(scores, y, {.label_smoothing = 0.1});
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
    tally_scores_(tally, scores, y, loss);
  }
  const cuda::Counters after = cuda::counters();
  CHECK(after.synchronizations == warm.synchronizations);
  CHECK(after.driver_allocations == warm.driver_allocations);
  CHECK(after.launches > warm.launches);
  CHECK(tally.counts.cpu().to_vector<int64_t>()[0] == 2 * kSteps);
}
