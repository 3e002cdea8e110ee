// What a training's memory will be, and what counting it costs: steps of whole ResNets.
#include "lathe/profile/memory_forecast.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/hooks/record.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"

namespace lathe::profile {
namespace {

void make_gradients(nn::Module& model, int64_t batch) {
  const Tensor x = randn({batch, 3, 32, 32}), y = randint(0, 10, {batch});
  cross_entropy(model(x), y).backward();
}

void update(optim::Optimizer& optimizer) {
  optimizer.step();
  optimizer.zero_grad();
}

void train(nn::Module& model, optim::Optimizer& optimizer, int64_t batch) {
  make_gradients(model, batch);
  update(optimizer);
}

TEST_CASE("memory_use: counting is less than 1 % of a ResNet-20 step") {
  nn::CifarResNet model = nn::resnet20();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  train(model, optimizer, 2);
  const uint64_t before = host_allocator().stats().allocations;
  const int64_t begin = now_ns();
  train(model, optimizer, 2);
  const double step_ns = static_cast<double>(now_ns() - begin);
  const auto tensors = static_cast<double>(host_allocator().stats().allocations - before);
  constexpr int kCalls = 100'000;
  double one_ns = 1e9;
  const Tensor recorded = empty({25});
  constexpr MemoryTag kTags[] = {MemoryTag::kOther, MemoryTag::kActivations};
  for (int series = 0; series < 10; ++series) {
    const int64_t from = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      const CountedMemory one(100, kCPU, MemoryTag::kData);
      recorded.impl().storage->set_tag(kTags[i % 2]);  // as for the result of a recorded op
    }
    one_ns = std::min(one_ns, static_cast<double>(now_ns() - from) / kCalls);
  }
  MESSAGE(tensors << " tensors a step, " << one_ns << " ns each, of " << step_ns / 1e6 << " ms");
  CHECK(tensors * one_ns < 0.01 * step_ns);
}

// By direct algorithms. The memory of Winograd's depends on the batch as oneDNN likes: on a processor
// with AMX it needs 8 MB less for 128 images than the line through 32 and 64 says.
struct DirectConvolutions {
  const bool before = cpu::conv_exact();
  DirectConvolutions() { cpu::set_conv_exact(true); }
  ~DirectConvolutions() { cpu::set_conv_exact(before); }
};

TEST_CASE("forecast_memory: the peak of ResNet-8 and ResNet-20, to 5 %") {
  const DirectConvolutions direct;
  const auto check = [](nn::CifarResNet model) {
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    const MemoryForecast forecast = forecast_memory(
        kCPU, [&](int64_t batch) { make_gradients(model, batch); }, [&] { update(optimizer); });
    for (const int64_t batch : {48, 96, 128}) {
      reset_memory_peak();
      train(model, optimizer, batch);
      const auto peak = static_cast<double>(memory_use().peak);
      const auto predicted = static_cast<double>(forecast.peak(batch));
      MESSAGE("batch " << batch << ": " << predicted / peak << " of the measured peak");
      CHECK(std::abs(predicted - peak) < 0.05 * peak);
    }
    const int64_t most = forecast.largest_batch(forecast.peak(1000));
    CHECK(std::abs(most - 1000) <= 1);
    CHECK(forecast.largest_batch(0) == 0);
  };
  check(nn::resnet8());
  check(nn::resnet20());
  CHECK_THROWS_AS(forecast_memory(
                      kCPU, [](int64_t) {}, [] {}, {.small_batch = 2, .large_batch = 2}),
                  ValueError);
}

TEST_CASE("forecast_memory: the optimiser's scratch memory hides no activations") {
  constexpr int64_t kScratch = 1 << 20, kSample = 4096, kWeights = 4096;
  const Tensor weights = empty({kWeights / 4});
  const int64_t before = memory_use().in_use;
  Tensor gradient;
  const auto gradients = [&](int64_t batch) {
    const Tensor activations = empty({batch * kSample / 4});
    gradient = empty({kWeights / 4});
  };
  const auto update = [&] {
    const Tensor scratch = empty({kScratch / 4});
    gradient = Tensor();
  };
  const MemoryForecast forecast =
      forecast_memory(kCPU, gradients, update, {.small_batch = 2, .large_batch = 4});
  CHECK(forecast.bytes_per_sample == kSample);
  // Up to 256 samples are less than the scratch memory.
  CHECK(forecast.peak(1) - before == kWeights + kScratch);
  CHECK(forecast.peak(256) - before == kWeights + kScratch);
  CHECK(forecast.peak(1000) - before == kWeights + 1000 * kSample);
  CHECK(forecast.largest_batch(before + kScratch) == 0);
  CHECK(forecast.largest_batch(before + kWeights + kScratch) == 256);
}

}  // namespace
}  // namespace lathe::profile
