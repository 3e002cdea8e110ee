// The advice after an out-of-memory error, against the peak of steps that are run.
#include "lathe/tools/cli/training/memory_advice.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/optim/sgd.h"

namespace lathe::cli {
namespace {

struct Run {
  Settings settings;
  nn::CifarResNet model = nn::resnet8();
  optim::SGD optimizer{model.parameters(), {.lr = 0.1, .momentum = 0.9}};

  explicit Run(int64_t batch) {
    settings.batch_size = batch;
    settings.image_size = 32;
  }
  int64_t peak_of(int64_t batch) {
    profile::reset_memory_peak();
    const Tensor images = randn({batch, 3, 32, 32}).contiguous(kChannelsLast);  // as --layout says
    cross_entropy(model(images), randint(0, 10, {batch})).backward();
    optimizer.step();
    optimizer.zero_grad();
    return profile::memory_use().peak;
  }
  std::string advice(int64_t had_bytes) {
    return memory_advice(settings, {}, kCPU, model, optimizer, had_bytes);
  }
};

/// The number in "(100 images should fit".
int64_t images_in(const std::string& advice) {
  const size_t at = advice.find('(');
  REQUIRE(at != std::string::npos);
  return std::stoll(advice.substr(at + 1));
}

TEST_CASE("memory_advice: names the batch that fits what there was") {
  Run run(256);
  run.peak_of(8);
  const std::string advice = run.advice(run.peak_of(100));
  INFO(advice);
  CHECK(advice.starts_with("try --batch-size 64 --accumulate 4 ("));
  CHECK(images_in(advice) >= 95);
  CHECK(images_in(advice) <= 105);
  CHECK(advice.ends_with(", --recompute, --amp bf16"));
}

TEST_CASE("memory_advice: half the batch where nothing can be measured") {
  Run run(256);
  run.settings.amp = "bf16";
  run.settings.accumulate = 3;
  run.settings.recompute = true;
  CHECK(run.advice(1) == "try --batch-size 128 --accumulate 6");  // weights alone are more
  host_allocator().fault().fail_at(1, FaultPoint::kForever);
  const std::string advice = run.advice(1 << 30);
  host_allocator().fault().disarm();
  CHECK(advice == "try --batch-size 128 --accumulate 6");
  Run small(5);
  CHECK(small.advice(1 << 30) == "try --batch-size 2 --accumulate 3, --recompute, --amp bf16");
  Run one(1);
  one.settings.amp = "fp16";
  CHECK(one.advice(1 << 30) == "try --recompute");
  one.settings.recompute = true;
  CHECK(one.advice(1 << 30) == "try a smaller --model or --image-size");
}

TEST_CASE("memory_advice: after an evaluation it measures a training all the same") {
  Run run(256);
  run.peak_of(8);
  const int64_t had = run.peak_of(100);
  run.model.eval();
  const std::string advice = run.advice(had);
  INFO(advice);
  CHECK(run.model.is_training());
  CHECK(images_in(advice) >= 95);
  CHECK(images_in(advice) <= 105);
}

TEST_CASE("memory_advice: what a model throws does not take the place of the advice") {
  struct Failing final : nn::Module {
    Tensor forward(const Tensor&) override { throw std::invalid_argument("planted"); }
  };
  Run run(256);
  Failing failing;
  CHECK(memory_advice(run.settings, {}, kCPU, failing, run.optimizer, 1 << 30) ==
        "try --batch-size 128 --accumulate 2, --amp bf16");
}

}  // namespace
}  // namespace lathe::cli
