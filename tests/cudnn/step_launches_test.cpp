// How many kernels of our own a training step of ResNet-18 launches under Autocast: those of cuDNN
// and cuBLAS, real or emulated, are not ours and do not count.
#include "../cuda_case.h"
#include "../narrow_resnet18.h"
#include "../own_launches.h"
#include "lathe/lathe.h"
#include "lathe/ops/matmul.h"

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
  const uint64_t launches = cuda::counters().launches - before.launches,
                 waits = cuda::counters().synchronizations;
  // One more where cuBLAS has no product that sums the classifier's bias gradient up.
  const TensorOptions half{.dtype = kF16, .device = kGpu};
  const Tensor dy = zeros({2, 10}, half), features = zeros({2, 64}, half);
  const auto sums =
      static_cast<uint64_t>(own_launches([&] { cuda::linear_param_grads(dy, features); }));
  MESSAGE("launches per step: ", launches, ", of these for sums that cuBLAS has not: ", sums);
  CHECK(launches < 112 + sums);
  CHECK(waits == before.synchronizations);
}
