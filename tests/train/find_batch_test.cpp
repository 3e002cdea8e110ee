// The search for the largest batch.
#include "lathe/train/tune/find_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"
#include "lathe/train.h"

using namespace lathe;
using namespace lathe::train;

TEST_CASE("largest batch: exact while small, to a 32nd above, and a size that was seen to fit") {
  for (int64_t limit = 0; limit <= 3000; limit += limit < 100 ? 1 : 37) {
    CAPTURE(limit);
    std::vector<int64_t> good;
    int64_t tries = 0;
    const int64_t found = largest_that_fits(1 << 20, [&](int64_t n) {
      ++tries;
      if (n <= limit) good.push_back(n);
      return n <= limit;
    });
    CHECK(found <= limit);
    CHECK(limit - found <= std::max<int64_t>(found / 32, 0));
    CHECK((found == 0 || std::ranges::find(good, found) != good.end()));
    CHECK(tries <= 2 * 12);
  }
}

TEST_CASE("largest batch: never more than the most, which is tried") {
  for (const int64_t most : {1, 2, 3, 100}) {
    int64_t largest_tried = 0;
    CHECK(largest_that_fits(most, [&](int64_t n) {
            largest_tried = std::max(largest_tried, n);
            return true;
          }) == most);
    CHECK(largest_tried == most);
  }
}

TEST_CASE("largest batch: libraries keep a tenth of the memory, and never less than 96 MiB") {
  constexpr int64_t kMiB = 1 << 20;
  CHECK(tensors_within(10000 * kMiB) == 9000 * kMiB);
  CHECK(tensors_within(960 * kMiB) == 864 * kMiB);
  CHECK(tensors_within(300 * kMiB) == 204 * kMiB);
  CHECK(tensors_within(96 * kMiB) == 0);
  CHECK(tensors_within(10 * kMiB) == 0);
}

namespace {

/// A layer over [samples, 1024], which need 4 KiB each.
StepSetup wide_layer(bool normed) {
  return {.model =
              [normed] {
                auto model = std::make_unique<nn::Sequential>();
                model->add<nn::Linear>(1024, 16);
                if (normed) model->add<nn::BatchNorm1d>(16);
                return model;
              },
          .optimizer =
              [](nn::Module& model) {
                return std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{});
              },
          .loss = [](nn::Module& model) { return classification(model); },
          .batch =
              [](int64_t samples, Device device) {
                return Tensors{randn({samples, 1024}, {.device = device}),
                               randint(0, 16, {samples}, {.device = device})};
              }};
}

}  // namespace

TEST_CASE("find_batch: the largest batch within a limit, which is gone afterwards") {
  host_allocator().empty_cache();
  const size_t limit = host_allocator().stats().reserved_bytes + (size_t{8} << 20);
  const auto too_much = [&] {
    return empty({static_cast<int64_t>(limit) + (64 << 20)}, {.dtype = kU8});
  };
  StepSetup setup = wide_layer(false);
  setup.batch = [&, make = setup.batch](int64_t samples, Device device) {
    CHECK_THROWS_AS(too_much(), OutOfMemoryError);
    if (samples > 700) LATHE_FAIL(OutOfMemoryError, "no memory for ", samples, " samples");
    return make(samples, device);
  };
  std::map<int64_t, bool> tried;
  const FoundBatch found = find_batch(setup, kCPU,
                                      {.most = 4096,
                                       .limit_bytes = limit,
                                       .seconds = 0.01,
                                       .on_trial = [&](int64_t batch, const auto& trial) {
                                         tried[batch] = trial.has_value();
                                         if (trial) CHECK(trial->peak_bytes >= batch * 4096);
                                       }});
  CHECK(found.largest > 680);
  CHECK(found.largest <= 700);
  CHECK(tried.at(found.largest));
  CHECK_FALSE(tried.at(1024));
  CHECK(found.fastest.samples_per_second > 0);
  CHECK(found.no_memory.starts_with("no memory for "));
  CHECK(found.needs_two.empty());
  CHECK(too_much().defined());
}

TEST_CASE("find_batch: a model that needs two samples is tried with two") {
  const FoundBatch found = find_batch(wide_layer(true), kCPU, {.most = 2, .seconds = 0.01});
  CHECK(found.largest == 2);
  CHECK(found.needs_two.find("more than one value per channel") != std::string::npos);
  const FoundBatch none = find_batch(wide_layer(true), kCPU, {.most = 1, .seconds = 0.01});
  CHECK(none.largest == 0);
  CHECK(none.fastest.batch == 0);
}

TEST_CASE("find_batch: a step is an update, without a loss scale") {
  StepSetup setup = wide_layer(false);
  setup.options.accumulate = 4;
  setup.options.scaling = optim::GradScalerOptions{.init_scale = 3e38};  // every update overflows
  optim::Optimizer* optimizer = nullptr;
  setup.optimizer = [&](nn::Module& model) {
    auto made = std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = 0.1});
    optimizer = made.get();
    return made;
  };
  Tensor before;
  int64_t changed = 0;
  setup.batch = [&, make = setup.batch](int64_t samples, Device device) {
    before = optimizer->params()[0].detach().clone();
    return make(samples, device);
  };
  const auto on_trial = [&](int64_t, const auto&) {
    changed += allclose(before, optimizer->params()[0].detach(), {.rtol = 0, .atol = 0}) ? 0 : 1;
  };
  find_batch(setup, kCPU, {.most = 4, .seconds = 1e-9, .on_trial = on_trial});
  CHECK(changed == 3);  // batches of 1, 2 and 4
}

TEST_CASE("find_batch: samples per second are those of the steps that were timed") {
  using Clock = std::chrono::steady_clock;
  StepSetup setup = wide_layer(false);
  int64_t calls = 0;
  setup.loss = [&](nn::Module& model) -> LossFunction {
    return [&calls, loss = classification(model)](const Tensors& batch) {
      ++calls;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return loss(batch);
    };
  };
  double best = 0;
  auto began = Clock::now();
  const auto on_trial = [&](int64_t batch, const std::optional<BatchTrial>& trial) {
    const std::chrono::duration<double> all = Clock::now() - began;
    REQUIRE(trial.has_value());
    const auto samples = static_cast<double>(batch);
    CHECK(trial->samples_per_second <= samples / 0.01);
    CHECK(trial->samples_per_second >= samples * static_cast<double>(calls - 1) / all.count());
    CHECK(trial->peak_bytes < 32 << 20);
    best = std::max(best, trial->samples_per_second);
    calls = 0;
    began = Clock::now();
  };
  { const Tensor earlier = empty({64 << 20}, {.dtype = kU8}); }  // is not a peak of the search
  const FoundBatch found =
      find_batch(setup, kCPU, {.most = 4, .seconds = 0.1, .on_trial = on_trial});
  CHECK(found.fastest.samples_per_second == best);
}

TEST_CASE("find_batch: memory that a trial leaves in the cache is given back") {
  host_allocator().empty_cache();
  const size_t before = host_allocator().stats().reserved_bytes;
  find_batch(wide_layer(false), kCPU,
             {.most = 1024, .seconds = 0.01, .on_trial = [&](int64_t batch, const auto&) {
                const size_t now = host_allocator().stats().reserved_bytes;
                if (batch == 1024) CHECK(now - before < 2 << 20);  // its samples had 4 MiB
              }});
}

TEST_CASE("find_batch: other errors end the search, and a failed new is a lack of memory") {
  StepSetup setup = wide_layer(false);
  setup.batch = [make = setup.batch](int64_t samples, Device device) {
    if (samples == 2) LATHE_FAIL(ShapeError, "of two samples");
    return make(samples, device);
  };
  CHECK_THROWS_WITH_AS(find_batch(setup, kCPU, {.most = 8, .seconds = 0.01}),
                       doctest::Contains("of two samples"), ShapeError);
  setup.batch = [make = wide_layer(false).batch](int64_t samples, Device device) {
    if (samples > 2) throw std::bad_alloc();
    return make(samples, device);
  };
  const FoundBatch found = find_batch(setup, kCPU, {.most = 8, .seconds = 0.01});
  CHECK(found.largest == 2);
  CHECK(found.no_memory == "out of memory");
  CHECK(default_memory_limit(kCPU) > 0);
}
