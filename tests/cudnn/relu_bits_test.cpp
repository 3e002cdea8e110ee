// Residual blocks with bits of what relu passed (Unmeasured::kReluBits) and without.
#include "../cuda_case.h"
#include "../ops/compare.h"
#include "lathe/core/unmeasured.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE(
    "batch_norm_add_relu: with bits, gradients are those of y, also computed again and twice" *
    cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  set_deterministic(true);  // else a convolution may add in another order each time
  nn::Sequential blocks;
  blocks.add<nn::BasicBlock>(8, 8, 1, true);
  blocks.add<nn::BasicBlock>(8, 16, 2, true);
  blocks.to(gpu).to(kChannelsLast);
  const Tensor x = randn({2, 8, 6, 6}).contiguous(kChannelsLast).to(gpu);
  const auto grads = [&](bool bits, bool again, bool twice) {
    set_unmeasured(bits ? "relu-bits" : "");
    const Tensor in = x.detach().requires_grad_();
    const Recompute recompute(again);
    Tensor loss;
    {
      const Autocast half(gpu, kF16);
      loss = sum(square(blocks(in.to(kF16)).to(kF32)));
    }
    Tensors wanted = blocks.parameters();
    wanted.push_back(in);
    Tensors found = grad({loss}, wanted, {.create_graph = twice});
    if (twice) found = grad({sum(square(found.back()))}, {in});
    set_unmeasured("");
    return found;
  };
  for (const bool again : {false, true}) {
    for (const bool twice : {false, true}) {
      CAPTURE(again);
      CAPTURE(twice);
      const Tensors want = grads(false, again, twice), got = grads(true, again, twice);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(difference(got[i].to(kCPU), want[i].to(kCPU), 0).empty());
    }
  }
  set_deterministic(false);
}
