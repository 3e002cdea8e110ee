// Trials: how many steps they count, that they are those of a training, and that they leave nothing.
#include "lathe/tools/cli/training/trial.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/tests/cli/small_job.h"

using namespace lathe;
using namespace lathe::cli;

TEST_CASE("trial: counts the steps after the warm-up, trains what was prepared, leaves nothing") {
  const Settings job = small_job();
  const TrialData data = open_trial_data(job);
  int prepared = 0, warm = 0, steps = 0;
  std::vector<float> first, last;
  const TrialTimes times = try_training(job, data,
                                        {.warm_up = 3,
                                         .steps = 7,  // beyond the epoch of 8
                                         .prepare = [&](nn::Module&) { ++prepared; },
                                         .when_warm = [&] { ++warm; },
                                         .after_step =
                                             [&](nn::Module& model) {
                                               last = model.parameters()[0].to_vector<float>();
                                               if (++steps == 1) first = last;
                                             }});
  CHECK(prepared == 1);
  CHECK(warm == 1);
  CHECK(steps == 7);
  CHECK(times.steps == 7);
  CHECK(times.seconds > 0);
  CHECK(times.wait_seconds <= times.seconds);
  CHECK(times.per_step() == doctest::Approx(times.seconds / 7));
  CHECK(first != last);
  std::vector<float> again;
  try_training(job, data, {.warm_up = 3, .steps = 7, .after_step = [&](nn::Module& model) {
                             again = model.parameters()[0].to_vector<float>();
                           }});
  CHECK(again == last);  // from the seed on, whatever ran before
  CHECK(try_training(job, data, {.warm_up = 0, .seconds = 1e-9}).steps == 1);
  CHECK_THROWS_AS(try_training(job, data, {}), ValueError);
}

TEST_CASE("trial: an evaluation counts its passes and changes no weight") {
  const Settings job = small_job();
  const TrialData data = open_trial_data(job);
  for (const bool gradients : {false, true}) {
    std::set<std::vector<float>> seen;
    const TrialTimes times = try_evaluation(
        job, data,
        {.steps = 11,
         .after_step = [&](nn::Module& m) { seen.insert(m.parameters()[0].to_vector<float>()); }},
        gradients);
    CHECK(times.steps == 11);
    CHECK(seen.size() == 1);
  }
}
