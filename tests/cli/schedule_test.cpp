#include "lathe/tools/cli/training/schedule.h"

#include <doctest/doctest.h>

#include <vector>

#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/tools/cli/exit_codes.h"

using namespace lathe::cli;
using doctest::Approx;
using Kind = Schedule::Kind;

TEST_CASE("schedule: cosine and linear fall from 1 to 0 over the run, step by step") {
  const Schedule linear{.kind = Kind::kLinear, .steps_per_epoch = 10, .total_steps = 100};
  CHECK(linear.factor(0) == 1);
  CHECK(linear.factor(25) == Approx(0.75));
  CHECK(linear.factor(99) == Approx(0.01));
  CHECK(linear.factor(100) == 0);
  CHECK(linear.factor(200) == 0);
  const Schedule cosine{.kind = Kind::kCosine, .steps_per_epoch = 10, .total_steps = 100};
  CHECK(cosine.factor(0) == 1);
  CHECK(cosine.factor(50) == Approx(0.5));
  CHECK(cosine.factor(100) == Approx(0));
}

TEST_CASE("schedule: step and multistep count in epochs") {
  const Schedule step{.kind = Kind::kStep, .steps_per_epoch = 4, .step_size = 3, .gamma = 0.5};
  CHECK(step.factor(11) == 1);
  CHECK(step.factor(12) == 0.5);
  CHECK(step.factor(24) == 0.25);
  const Schedule multi{
      .kind = Kind::kMultiStep, .steps_per_epoch = 4, .milestones = {2, 3}, .gamma = 0.1};
  CHECK(multi.factor(7) == 1);
  CHECK(multi.factor(8) == Approx(0.1));
  CHECK(multi.factor(12) == Approx(0.01));
  CHECK(Schedule{}.factor(1'000'000) == 1);
}

TEST_CASE("schedule: exponential counts in epochs, restarts in steps from the warm-up on") {
  const Schedule power{.kind = Kind::kExponential, .steps_per_epoch = 4, .gamma = 0.5};
  CHECK(power.factor(3) == 1);
  CHECK(power.factor(4) == 0.5);
  CHECK(power.factor(11) == 0.25);
  const Schedule cycles{.kind = Kind::kRestarts,
                        .steps_per_epoch = 4,
                        .warmup_steps = 2,
                        .restart_epochs = 2,
                        .restart_factor = 2};
  for (const int64_t step : {2, 10, 26}) CHECK(cycles.factor(step) == 1);  // 8 steps, then 16
  CHECK(cycles.factor(6) == Approx(0.5));
  CHECK(cycles.factor(18) == Approx(0.5));
  CHECK(cycles.factor(25) < 0.01);
}

TEST_CASE("schedule: the warm-up rises to 1, and what follows begins there") {
  const Schedule s{
      .kind = Kind::kLinear, .steps_per_epoch = 10, .total_steps = 104, .warmup_steps = 4};
  for (const int64_t step : {0, 1, 2, 3})
    CHECK(s.factor(step) == Approx(0.2 * static_cast<double>(step + 1)));
  CHECK(s.factor(4) == 1);
  CHECK(s.factor(54) == Approx(0.5));
}

TEST_CASE("schedule: poly is a power of what is left after the warm-up") {
  const Schedule s{.kind = Kind::kPoly, .total_steps = 104, .warmup_steps = 4, .power = 2};
  CHECK(s.factor(3) == Approx(0.8));
  CHECK(s.factor(4) == 1);
  CHECK(s.factor(54) == Approx(0.25));
  CHECK(s.factor(104) == 0);
}

TEST_CASE("schedule: onecycle rises for 0.3 of the run, or for the warm-up, and falls") {
  const Schedule plain{.kind = Kind::kOneCycle, .total_steps = 100};
  CHECK(plain.factor(0) == Approx(0.04));
  CHECK(plain.factor(29) == Approx(1));
  CHECK(plain.factor(99) == Approx(4e-6));
  const Schedule warm{.kind = Kind::kOneCycle, .total_steps = 100, .warmup_steps = 10};
  CHECK(warm.factor(0) == Approx(0.04));
  CHECK(warm.factor(9) < 1);
  CHECK(warm.factor(10) == Approx(1));
  CHECK(warm.factor(11) < 1);
  const Schedule all{.kind = Kind::kOneCycle, .total_steps = 10, .warmup_steps = 50};
  CHECK(all.factor(9) == Approx(1));
}

TEST_CASE("schedule: plateau falls by the test loss, from the warm-up on") {
  using lathe::zeros;
  const Schedule schedule{
      .kind = Kind::kPlateau, .total_steps = 100, .warmup_steps = 2, .gamma = 0.5, .patience = 1};
  lathe::optim::SGD optimizer({zeros({1}, {.requires_grad = true})}, {.lr = 3});
  RunSchedule run(optimizer, schedule);
  std::vector<double> rates;
  for (int step = 0; step < 8; ++step) {
    rates.push_back(optimizer.lr());
    (*run).observe(1.0);  // an evaluation after each step
    (*run).step();
  }
  const std::vector<double> want = {1, 2, 3, 3, 3, 1.5, 1.5, 0.75};
  for (size_t i = 0; i < want.size(); ++i) CHECK(rates[i] == Approx(want[i]));

  lathe::optim::SGD other({zeros({1}, {.requires_grad = true})}, {.lr = 3});
  RunSchedule cosine(other, {.kind = Kind::kCosine, .total_steps = 2});
  (*cosine).observe(1.0);
  (*cosine).step();
  CHECK(other.lr() == Approx(1.5));
}

TEST_CASE("schedule: made from settings") {
  Settings plain;
  plain.epochs = 100;
  Settings settings = plain;
  settings.scheduler = "multistep";
  settings.milestones = "80, 120";
  settings.warmup_epochs = 0.5;
  const Schedule s = make_schedule(settings, 10, 1000);
  CHECK(s.milestones == std::vector<int64_t>{80, 120});
  CHECK(s.warmup_steps == 5);
  for (const char* bad : {"", "120,80", "80,80", "0", "a"}) {
    CAPTURE(bad);
    settings.milestones = bad;
    CHECK_THROWS_AS(make_schedule(settings, 10, 1000), UsageError);
  }
  settings = plain;
  settings.scheduler = "plateau";
  settings.gamma = 1;
  CHECK_THROWS_WITH_AS(make_schedule(settings, 10, 1000),
                       doctest::Contains("--gamma below 1, got 1"), UsageError);
  settings.gamma = 0.5;
  settings.eval_every = 0;
  CHECK_THROWS_WITH_AS(make_schedule(settings, 10, 1000), doctest::Contains("--eval-every 0"),
                       UsageError);
  settings = plain;
  settings.warmup_epochs = 99.5;
  CHECK(make_schedule(settings, 10, 20).warmup_steps == 995);  // --max-steps ends inside of it
  for (const double warmup : {100.0, 1e10, 1e300}) {
    settings.warmup_epochs = warmup;
    CHECK_THROWS_WITH_AS(make_schedule(settings, 10, 1000), doctest::Contains("--epochs 100"),
                         UsageError);
  }
}
