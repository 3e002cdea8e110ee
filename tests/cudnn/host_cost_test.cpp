// What a convolution costs the host, over the emulated cuDNN.
#include <algorithm>
#include <chrono>

#include "../count_calls.h"
#include "../cuda_case.h"
#include "../same_memory.h"
#include "conv_keys.h"
#include "lathe/core/stream.h"
#include "lathe/ops/conv/cudnn/conv2d_engines_cudnn.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// Nanoseconds of one of 64 calls, the shortest of some rounds; queued work runs between them.
template <class F>
double nanoseconds(F f) {
  constexpr int kCalls = 64;
  double shortest = 1e9;
  for (int round = 0; round < 10; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) f();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, took.count() / kCalls);
    synchronize(current_stream(kGpu));
  }
  return shortest;
}

}  // namespace

TEST_CASE("host cost: what is kept of a key is found without lock or allocation") {
  const Conv2dCase c{"small", {2, 8, 6, 6}, {8, 8, 3, 3}, {.pad = 1}};
  ConvKey key = conv2d_key(ConvPass::kForward, geometry_of(c), kChannelsLast, kF32);
  key.machine = ConvMachine{.device = "a name that does not fit into a short string"};
  cuda::Conv2dPrepared* const kept = &cuda::conv2d_prepared(key, kGpu);
  cuda::Conv2dPrepared* found = nullptr;
  const CallCount calls = count_calls([&] {
    const ConvKey same = key;
    found = &cuda::conv2d_prepared(same, kGpu);
  });
  CHECK(found == kept);
  CHECK(calls.allocations == 0);
  CHECK(calls.locks == 0);
  MESSAGE("finding it: ", nanoseconds([&] { cuda::conv2d_prepared(key, kGpu); }), " ns");
}

TEST_CASE("host cost: a convolution whose key is known") {
  const Tensor x = same_memory_on(kGpu, rand({1, 4, 3, 3}).contiguous(kChannelsLast));
  const Tensor w = same_memory_on(kGpu, rand({4, 4, 3, 3}).contiguous(kChannelsLast));
  const NoGrad no_grad;
  const auto call = [&] { conv2d(x, w, {.pad = 1}); };
  const double ns = nanoseconds(call);
  const CallCount calls = count_calls(call);
  // Tensors, what is queued and the emulation's part: 63 and 14 when this was written. One more per
  // tensor is fine; a copy of the key or a new plan is not.
  CHECK(calls.allocations <= 72);
  CHECK(calls.locks <= 18);
  MESSAGE("one call, the emulated cuDNN's part of it included: ", ns, " ns, ", calls.allocations,
          " allocations, ", calls.locks, " locks; its output alone: ", nanoseconds([&] {
            empty({1, 4, 3, 3}, {.device = kGpu});
          }),
          " ns");
}
