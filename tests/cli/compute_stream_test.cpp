// ComputeStream: what waits for what at its ends, on a GPU or an emulated one, whose queues run as
// late as they may; and that a training is on it.
#include "lathe/train/compute_stream.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "../cuda_case.h"
#include "../emulated_order.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/cli/small_run.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

bool on_default_stream() { return current_stream(kGpu).native == nullptr; }

}  // namespace

TEST_CASE("compute stream: it begins behind the default stream, which goes on behind it" *
          lathe::test::cuda_case()) {
  const lathe::test::NoRaces races;
  for (const unsigned early : {0u, 1u, 3u}) {
    CAPTURE(early);
    const lathe::test::EmulatedOrder order(1, early);
    const Tensor value = full({8}, 1, {.device = kGpu});
    Tensor inside;
    {
      const train::ComputeStream on(kGpu);
      value.add_(full({8}, 2, {.device = kGpu}));
      CHECK(value.cpu().to_vector<float>() == std::vector<float>(8, 3));
      inside = full({8}, 4, {.device = kGpu});
      value.add_(inside);
    }
    value.add_(inside);
    inside = {};
    CHECK(value.cpu().to_vector<float>() == std::vector<float>(8, 11));
  }
}

TEST_CASE("compute stream: a scope has one, unless the thread is on another stream already" *
          lathe::test::cuda_case()) {
  Stream first;
  {
    const train::ComputeStream nothing(kCPU);
    CHECK(on_default_stream());
  }
  {
    const train::ComputeStream on(kGpu);
    CHECK_FALSE(on_default_stream());
    const Stream own = current_stream(kGpu);
    {
      const train::ComputeStream again(kGpu);
      CHECK(current_stream(kGpu) == own);
    }
    CHECK(current_stream(kGpu) == own);
    first = own;
  }
  CHECK(on_default_stream());
  const train::ComputeStream later(kGpu);
  CHECK(current_stream(kGpu) == first);
}

TEST_CASE("compute stream: a training is on one, and its weights are there afterwards" *
          lathe::test::cuda_case()) {
  const lathe::test::NoRaces races;
  const lathe::test::EmulatedOrder order(2, 3);
  lathe::test::Run run;
  lathe::test::add_linear(run.model);
  run.to(kGpu);
  optim::SGD optimizer(run.model.parameters(), {.lr = 0.1});
  optim::LambdaLR schedule(optimizer, [](int64_t) { return 1.0; });
  int64_t steps = 0;
  cli::Training training({.settings = run.settings,
                          .model = run.model,
                          .schedule = schedule,
                          .train = run.train,
                          .test = run.test,
                          .out = run.out,
                          .log = run.log,
                          .after_step =
                              [&](int64_t) {
                                ++steps;
                                CHECK_FALSE(on_default_stream());
                                return true;
                              }},
                         run.steps);
  training.trainer().use_folder(run.folder.path(), false, {});
  CHECK(training.run() == cli::ExitCode::kDone);
  CHECK(steps == run.steps);
  CHECK(on_default_stream());
  const auto saved = run.saved();
  for (const auto& [name, t] : run.model.named_parameters())
    CHECK(t.cpu().to_vector<float>() == saved.tensors.at(name).to_vector<float>());
}
