// ReduceLROnPlateau: against PyTorch's learning rates, alone; in a chain: scheduler_chain_test.cpp.
#include "lathe/optim/reduce_on_plateau.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/optim/golden_schedules.h"
#include "lathe/tests/optim/rates.h"

namespace lathe {
namespace {

using optim::ReduceLROnPlateau;
using optim::ReduceLROnPlateauOptions;
using optim::SGD;
using test::check_rates;
using test::rates;

Tensors one_param() { return {zeros({1}, {.requires_grad = true})}; }

struct Case {
  ReduceLROnPlateauOptions options;
  const std::vector<double>& want;
};
const Case kCases[] = {
    {{.factor = 0.5, .patience = 1}, golden::kPlateau},
    {{.factor = 0.1, .patience = 0, .cooldown = 2, .min_lr = 1e-3}, golden::kPlateauCooldown},
    {{.maximize = true, .factor = 0.3, .patience = 2, .threshold = 0.05, .relative = false},
     golden::kPlateauMaximize},
};

TEST_CASE("ReduceLROnPlateau: PyTorch's learning rates for metrics that rise, fall and are NaN") {
  for (const auto& [options, want] : kCases) {
    SGD optimizer(one_param(), {.lr = 0.4});
    ReduceLROnPlateau schedule(optimizer, options);
    check_rates(rates(schedule, golden::kMetrics), want);
    CHECK(schedule.last_epoch() == 21);
  }
}

TEST_CASE("ReduceLROnPlateau: every group is reduced, no further than min_lr, at once") {
  const Tensor a = one_param()[0], b = one_param()[0];
  SGD optimizer({{.params = {a}}, {.params = {b}, .lr = 0.03}}, {.lr = 1});
  ReduceLROnPlateau schedule(optimizer, {.patience = 0, .min_lr = 0.01});
  schedule.observe(1);
  schedule.observe(1);
  CHECK(optimizer.lr(0) == doctest::Approx(0.1));
  CHECK(optimizer.lr(1) == 0.01);
  for (int i = 0; i < 9; ++i) schedule.observe(1);
  CHECK(optimizer.lr(0) == doctest::Approx(0.01));
  CHECK(optimizer.lr(1) == 0.01);
}

TEST_CASE("ReduceLROnPlateau: a reduction by no more than eps is not made") {
  for (const auto& [eps, want] : {std::pair(0.5, 1.0), std::pair(0.49, 0.5)}) {
    SGD optimizer(one_param(), {.lr = 1});
    ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 0, .eps = eps});
    schedule.observe(1);
    schedule.observe(1);
    CHECK(optimizer.lr() == want);
  }
}

TEST_CASE("ReduceLROnPlateau: bad options and states are errors and change nothing") {
  SGD optimizer(one_param(), {.lr = 1});
  CHECK_THROWS_WITH_AS(ReduceLROnPlateau(optimizer, {.factor = 1}),
                       doctest::Contains("factor must be from 0 to below 1, got 1"), ValueError);
  CHECK_THROWS_WITH_AS(ReduceLROnPlateau(optimizer, {.patience = -1}),
                       doctest::Contains("patience must not be negative, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(ReduceLROnPlateau(optimizer, {.eps = std::nan("")}),
                       doctest::Contains("eps"), ValueError);
}

}  // namespace
}  // namespace lathe
