// Schedules: the sequences of learning rates, and resuming.
#include "lathe/optim/scheduler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/optim/golden_schedules.h"
#include "lathe/tests/optim/rates.h"

namespace lathe {
namespace {

using optim::LRScheduler;
using optim::SGD;

Tensors one_param() { return {zeros({1}, {.requires_grad = true})}; }

using test::check_rates;
using test::rates;

TEST_CASE("StepLR: epoch e trains with lr·gamma^floor(e/step_size), by repeated multiplication") {
  SGD optimizer(one_param(), {.lr = 0.1});
  optim::StepLR schedule(optimizer, {.step_size = 3, .gamma = 0.1});
  const double a = 0.1, b = a * 0.1, c = b * 0.1;
  CHECK(rates(schedule, 8) == std::vector<double>{a, a, a, b, b, b, c, c});
  CHECK(schedule.last_epoch() == 8);
}

TEST_CASE("MultiStepLR: multiplies at each milestone, twice at a doubled one") {
  SGD optimizer(one_param(), {.lr = 1});
  optim::MultiStepLR schedule(optimizer, {.milestones = {2, 4, 4}, .gamma = 0.5});
  CHECK(rates(schedule, 6) == std::vector<double>{1, 1, 0.5, 0.5, 0.125, 0.125});
}

TEST_CASE("CosineAnnealingLR: half a cosine from the initial rate to eta_min") {
  SGD optimizer(one_param(), {.lr = 1});
  optim::CosineAnnealingLR schedule(optimizer, {.t_max = 4, .eta_min = 0.2});
  const std::vector<double> got = rates(schedule, 5);
  for (int e = 0; e < 5; ++e) {
    CHECK(got[size_t(e)] ==
          doctest::Approx(0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi * e / 4))));
  }
  CHECK(got[0] == 1.0);
  CHECK(got[4] == doctest::Approx(0.2));
}

TEST_CASE("ExponentialLR, CosineAnnealingWarmRestarts: the rates are PyTorch's") {
  SGD first(one_param(), {.lr = 0.1}), second(one_param(), {.lr = 0.1}),
      third(one_param(), {.lr = 0.1});
  optim::ExponentialLR exponential(first, {.gamma = 0.75});
  check_rates(rates(exponential, 21), golden::kExponential);
  optim::CosineAnnealingWarmRestarts growing(second, {.t_0 = 3, .t_mult = 2, .eta_min = 0.01});
  check_rates(rates(growing, 21), golden::kWarmRestarts);
  optim::CosineAnnealingWarmRestarts equal(third, {.t_0 = 4});
  check_rates(rates(equal, 21), golden::kEqualRestarts);
  CHECK_THROWS_WITH_AS(optim::CosineAnnealingWarmRestarts(first, {.t_0 = 4, .t_mult = 0}),
                       doctest::Contains("t_mult must be at least 1, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(optim::CosineAnnealingWarmRestarts(first, {}),
                       doctest::Contains("t_0 must be at least 1, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(optim::ExponentialLR(first, {.gamma = -1}),
                       doctest::Contains("gamma must be positive and finite, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(optim::ExponentialLR(first, {}), doctest::Contains("got 0"), ValueError);
}

TEST_CASE("LinearLR: warms up, or anneals to exactly 0") {
  SGD optimizer(one_param(), {.lr = 2});
  optim::LinearLR warmup(optimizer, {.start_factor = 0.25, .total_iters = 3});
  CHECK(rates(warmup, 5) == std::vector<double>{0.5, 1, 1.5, 2, 2});
  SGD other(one_param(), {.lr = 2});
  optim::LinearLR anneal(other, {.start_factor = 1, .end_factor = 0, .total_iters = 4});
  CHECK(rates(anneal, 6) == std::vector<double>{2, 1.5, 1, 0.5, 0, 0});
}

TEST_CASE("LambdaLR: the initial rate times a function of the epoch, in every group") {
  const Tensor a = one_param()[0], b = one_param()[0];
  SGD optimizer({{.params = {a}}, {.params = {b}, .lr = 10.0}}, {.lr = 1});
  optim::LambdaLR schedule(optimizer, [](int64_t epoch) { return 1.0 / double(1 + epoch); });
  schedule.step();
  CHECK(optimizer.lr(0) == 0.5);
  CHECK(optimizer.lr(1) == 5.0);
}

TEST_CASE("schedules: a rate that cannot be set leaves the epoch and the rates of all groups") {
  const Tensor a = one_param()[0], b = one_param()[0];
  SGD optimizer({{.params = {a}, .lr = 0.0}, {.params = {b}}}, {.lr = 1});
  double factor = 0.5;
  optim::LambdaLR schedule(optimizer, [&](int64_t) { return factor; });
  optimizer.set_lr(0, 3);
  factor = -1;  // 0 · -1 could be set in the first group, 1 · -1 is refused in the second
  CHECK_THROWS_WITH_AS(schedule.step(),
                       doctest::Contains("must be finite and not negative, got -1"), ValueError);
  CHECK(optimizer.lr(0) == 3);
  CHECK(optimizer.lr(1) == 0.5);
  factor = std::nan("");
  CHECK_THROWS_AS(schedule.step(), ValueError);
  CHECK(schedule.last_epoch() == 0);
  factor = 0.25;
  schedule.step();
  CHECK(schedule.last_epoch() == 1);
  CHECK(optimizer.lr(1) == 0.25);
  CHECK_THROWS_WITH_AS(optimizer.set_lrs({1.0}), doctest::Contains("1 learning rates for 2 groups"),
                       ValueError);
}

TEST_CASE("PolynomialLR: falls to 0 as PyTorch's does, and stays there") {
  SGD optimizer(one_param(), {.lr = 0.1});
  optim::PolynomialLR schedule(optimizer, {.total_iters = 15, .power = 2});
  check_rates(rates(schedule, 21), golden::kPolynomial);
  SGD other(one_param(), {.lr = 2});
  optim::PolynomialLR line(other, {.total_iters = 4});
  CHECK(rates(line, 6) == std::vector<double>{2, 1.5, 1, 0.5, 0, 0});
}

TEST_CASE("OneCycleLR: up to the initial rate and down to nearly nothing, as PyTorch's") {
  struct Case {
    optim::OneCycleLROptions options;
    const std::vector<double>& want;
  };
  const Case cases[] = {
      {{.total_steps = 21}, golden::kOneCycle},
      {{.total_steps = 21,
        .pct_start = 0.45,
        .anneal = optim::Anneal::kLinear,
        .div_factor = 10,
        .final_div_factor = 100},
       golden::kOneCycleLinear},
      {{.total_steps = 21, .pct_start = 0.4, .three_phase = true}, golden::kOneCycleThreePhase},
  };
  for (const auto& [options, want] : cases) {
    SGD optimizer(one_param(), {.lr = 0.8});
    optim::OneCycleLR schedule(optimizer, options);
    check_rates(rates(schedule, 21), want);
    CHECK(optimizer.lr() == doctest::Approx(want.back()));  // after the last step it stays
  }
}

TEST_CASE("OneCycleLR: cycles too short for a rise have none") {
  for (const double start : {0.0, 0.3, 1.0}) {
    for (const int64_t steps : {1, 2, 3, 4}) {
      CAPTURE(start);
      CAPTURE(steps);
      SGD optimizer(one_param(), {.lr = 1});
      optim::OneCycleLR schedule(optimizer, {.total_steps = steps, .pct_start = start});
      for (const double lr : rates(schedule, 6)) {
        CHECK(lr > 0);
        CHECK(lr <= 1);
      }
      CHECK(optimizer.lr() == doctest::Approx(start == 1 ? 1 : 1 / 25e4));
    }
  }
}

TEST_CASE("schedules: each factor must be a number that is not negative") {
  SGD optimizer(one_param(), {.lr = 1});
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(optim::StepLR(optimizer, {.gamma = bad}),
                         doctest::Contains("StepLR: gamma must"), ValueError);
    CHECK_THROWS_WITH_AS(optim::MultiStepLR(optimizer, {.gamma = bad}),
                         doctest::Contains("MultiStepLR: gamma must"), ValueError);
    CHECK_THROWS_WITH_AS(optim::CosineAnnealingLR(optimizer, {.t_max = 1, .eta_min = bad}),
                         doctest::Contains("CosineAnnealingLR: eta_min must"), ValueError);
    CHECK_THROWS_WITH_AS(optim::LinearLR(optimizer, {.start_factor = bad}),
                         doctest::Contains("LinearLR: start_factor must"), ValueError);
    CHECK_THROWS_WITH_AS(optim::LinearLR(optimizer, {.end_factor = bad}),
                         doctest::Contains("LinearLR: end_factor must"), ValueError);
    CHECK_THROWS_WITH_AS(optim::PolynomialLR(optimizer, {.power = bad}),
                         doctest::Contains("PolynomialLR: power must"), ValueError);
  }
  CHECK(optimizer.lr() == 1);
}

TEST_CASE("schedules: bad options and states are errors with the value") {
  SGD optimizer(one_param(), {.lr = 1});
  CHECK_THROWS_WITH_AS(optim::StepLR(optimizer, {.step_size = 0}),
                       doctest::Contains("StepLR: step_size must be at least 1, got 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::StepLR(optimizer, {.gamma = -1}), doctest::Contains("gamma"),
                       ValueError);
  CHECK_THROWS_WITH_AS(
      optim::MultiStepLR(optimizer, {.milestones = {1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 20}}),
      doctest::Contains("must ascend, got 20 after 30"), ValueError);
  CHECK_THROWS_WITH_AS(optim::MultiStepLR(optimizer, {.milestones = {0}}),
                       doctest::Contains("got 0"), ValueError);
  CHECK_THROWS_WITH_AS(optim::CosineAnnealingLR(optimizer, {}), doctest::Contains("t_max"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::LinearLR(optimizer, {.start_factor = std::nan("")}),
                       doctest::Contains("start_factor"), ValueError);
  CHECK_THROWS_AS(optim::LambdaLR(optimizer, nullptr), ValueError);
  CHECK_THROWS_WITH_AS(optim::PolynomialLR(optimizer, {.total_iters = 0}),
                       doctest::Contains("total_iters must be at least 1, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(optim::PolynomialLR(optimizer, {.power = -1}), doctest::Contains("power"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::OneCycleLR(optimizer, {}), doctest::Contains("total_steps"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::OneCycleLR(optimizer, {.total_steps = 9, .pct_start = 1.5}),
                       doctest::Contains("pct_start must be from 0 to 1, got 1.5"), ValueError);
  CHECK_THROWS_WITH_AS(
      optim::OneCycleLR(optimizer, {.total_steps = 9, .pct_start = 0.6, .three_phase = true}),
      doctest::Contains("pct_start must be from 0 to 0.5, got 0.6"), ValueError);
  CHECK_THROWS_WITH_AS(optim::OneCycleLR(optimizer, {.total_steps = 9, .div_factor = 0}),
                       doctest::Contains("div_factor must be positive, got 0"), ValueError);
  CHECK(optimizer.lr() == 1);
}

}  // namespace
}  // namespace lathe
