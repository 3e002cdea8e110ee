// How many kernels of our own a training step of ResNet-18 launches under Autocast, over the
// emulated cuDNN: its launches, like those of cuBLAS, are not ours and do not count.
#include "../cuda_case.h"
#include "../narrow_resnet18.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Device kGpu(DeviceType::kCUDA);

}  // namespace

TEST_CASE("step: ResNet-18 in f16 launches fewer than 112 kernels of our own" * cuda_case()) {
  manual_seed(3);
  NarrowResNet18 net;
  CHECK(net.parameters().size() == 62);
  net.to(kChannelsLast).to(kGpu);
  optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  optimizer.set_half_copies();
  optim::GradScaler scaler;
  const Tensor x = randn({2, 3, 16, 16}).contiguous(kChannelsLast).to(kGpu);
  const Tensor y = tensor({1, 3}).to(kI64).to(kGpu);
  cuda::Counters before;
  for (int step = 0; step < 3; ++step) {  // as lathe bench step
    before = cuda::counters();
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast half(kGpu, kF16);
      loss = cross_entropy(net(x).to(kF32), y);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer, {.fused = true});
    scaler.update();
  }
  const uint64_t launches = cuda::counters().launches - before.launches;
  MESSAGE("launches per step: ", launches);
  CHECK(launches < 112);
  CHECK(cuda::counters().synchronizations == before.synchronizations);
}
