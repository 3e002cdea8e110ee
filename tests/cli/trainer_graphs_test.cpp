// Training as CUDA graphs: steps, parts of steps, last batches and evaluations beside the same
// queued kernel by kernel, and what happens if memory is missing while they are recorded. What a
// launch costs the host, and what happens if recording is refused: trainer_graphs_emulated_test.cpp.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "../emulated_count.h"
#include "graph_training.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/isclose.h"

using namespace lathe;
using lathe::test::Bytes;
using lathe::test::differences;
using lathe::test::Run;
using Training = lathe::test::GraphTraining;

namespace {

struct Scale {
  double scale, skipped;
  bool operator==(const Scale&) const = default;
};

/// Of the rows of training, by their steps.
std::map<int64_t, Scale> scales_in_rows(const Run& run) {
  std::map<int64_t, Scale> out;
  std::ifstream rows(run.folder.path() / "metrics.jsonl");
  for (std::string row; std::getline(rows, row);) {
    const auto number = [&row](const std::string& name) {
      const std::string key = "\"" + name + "\":";
      return std::stod(row.substr(row.find(key) + key.size()));
    };
    if (row.find("\"train\"") == std::string::npos) continue;
    out[static_cast<int64_t>(number("step"))] = {number("loss_scale"), number("skipped_steps")};
  }
  return out;
}

/// What the host does in each step, as counters say.
std::vector<cuda::Counters> counters_of_steps(Training training) {
  std::vector<cuda::Counters> out;
  training.after_step = [&](int64_t) { out.push_back(cuda::counters()); };
  training.saved();
  return out;
}

}  // namespace

// Fewer where each takes longer: gradients overflow again and again in these, too.
#if defined(LATHE_ASAN)
constexpr int64_t kSteps = 80;
#else
constexpr int64_t kSteps = 200;
#endif

TEST_CASE("trainer graphs: many steps have the bits of steps that are queued kernel by kernel" *
          test::cuda_case()) {
  Training training{
      .steps = kSteps, .epochs = (kSteps + 6) / 7, .half = true, .pause_after = kSteps / 2 + 1};
  Run paused, resumed;
  training(paused);
  training.pause_after = 0;
  training(resumed, &paused);
  training.capture = false;
  CHECK(differences(training.saved(), resumed.saved_bytes()) == "");
}

TEST_CASE("trainer graphs: so do steps of several batches, and a last one of fewer" *
          test::cuda_case()) {
  for (const int64_t accumulate : {2, 3, 4}) {  // with 3, steps begin in both places of batches
    CAPTURE(accumulate);
    Training training{.steps = 16, .epochs = 8, .accumulate = accumulate, .half = accumulate == 2};
    const Bytes captured = training.saved();
    training.capture = false;
    CHECK(differences(training.saved(), captured) == "");
  }
}

TEST_CASE("trainer graphs: so do steps that make their batches of bytes on the GPU" *
          test::cuda_case()) {
  for (const bool half : {true, false}) {
    CAPTURE(half);
    Training training{.half = half, .resident = true};
    const Bytes captured = training.saved();
    training.capture = false;
    CHECK(differences(training.saved(), captured) == "");
  }
}

// A step that is skipped leaves the weights as they are, as the first one does. Nothing here waits
// for the GPU before the end, so that the host knows of the scale what the trainer asks for.
TEST_CASE("trainer graphs: a row has the loss scale after its step, also after a pause" *
          test::cuda_case()) {
  Run paused, resumed;
  Tensors weights;
  const Run* now = &paused;
  Training training{.steps = 20,
                    .epochs = 3,
                    .eval_every = 0,
                    .half = true,
                    .pause_after = 10,
                    .log_every = 5,
                    .after_step = [&](int64_t) {
                      weights.push_back(now->model.parameters()[0].detach().clone());
                    }};
  training(paused);
  training.pause_after = 0;
  now = &resumed;
  training(resumed, &paused);
  auto rows = scales_in_rows(paused);
  rows.merge(scales_in_rows(resumed));
  CHECK(weights.size() == 20);
  Scale expected{.scale = 0x1p18, .skipped = 0};
  int64_t good = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    const auto i = static_cast<size_t>(step);
    if (step == 1 || equal(weights[i - 1], weights[i - 2])) {
      expected = {.scale = expected.scale / 2, .skipped = expected.skipped + 1};
      good = 0;
    } else if (++good == 6) {
      expected.scale *= 2;
      good = 0;
    }
    CAPTURE(step);
    if (step % 5 == 0 || rows.contains(step)) CHECK(rows.at(step) == expected);
  }
  // A gradient near the largest f16 number may be on either side of it on another GPU.
  CHECK((test::kEmulated ? expected.skipped == 2 : expected.skipped >= 1));
}

TEST_CASE("trainer graphs: a captured step has few launches, no waits and no allocations" *
          test::cuda_case()) {
  for (const bool resident : {false, true})
    for (const int64_t accumulate : {1, 2}) {
      CAPTURE(resident);
      CAPTURE(accumulate);
      const auto steps =
          counters_of_steps({.accumulate = accumulate, .half = true, .resident = resident});
      size_t looked_at = 0;
      for (size_t i = 1; i < steps.size(); ++i) {
        const size_t in_epoch = i % (accumulate == 1 ? 7 : 4);
        if (i < 21 || in_epoch == 0) continue;  // the first of an epoch may follow an evaluation
        ++looked_at;
        CAPTURE(i);
        // For each batch where its random numbers start, and the graph; for the step the learning
        // rate, and news of the loss scale.
        CHECK(steps[i].launches - steps[i - 1].launches <=
              2 * static_cast<uint64_t>(accumulate) + 2);
        CHECK(steps[i].synchronizations == steps[i - 1].synchronizations);
        CHECK(steps[i].driver_allocations == steps[i - 1].driver_allocations);
      }
      CHECK(looked_at >= 3);
    }
}

TEST_CASE("trainer graphs: without memory for what is recorded, the numbers are the same" *
          test::cuda_case()) {
  set_deterministic(true);  // else a product without a workspace may add in another order
  test::check_failures(cuda::allocation_fault(), 8);
  set_deterministic(false);
}
