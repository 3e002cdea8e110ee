// Schedules made of schedules: one after another, several at once.
#include "lathe/optim/scheduler_chain.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "lathe/ops/creation.h"
#include "lathe/optim/reduce_on_plateau.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/optim/golden_schedules.h"
#include "lathe/tests/optim/rates.h"

namespace lathe {
namespace {

using optim::ChainedLR;
using optim::SequentialLR;
using optim::SGD;
using test::check_rates;
using test::rates;

Tensors one_param() { return {zeros({1}, {.requires_grad = true})}; }

TEST_CASE("SequentialLR: a warm-up, then a schedule that counts from the milestone") {
  SGD optimizer(one_param(), {.lr = 1});
  optim::LinearLR warmup(optimizer, {.start_factor = 0.5, .total_iters = 2});
  optim::StepLR steps(optimizer, {.step_size = 2, .gamma = 0.1});
  SequentialLR schedule(optimizer, {&warmup, &steps}, {2});
  CHECK(rates(schedule, 7) == std::vector<double>{0.5, 0.75, 1, 1, 0.1, 0.1, 0.1 * 0.1});
}

TEST_CASE("SequentialLR: a plateau counts metrics from its own milestone on") {
  SGD optimizer(one_param(), {.lr = 1});
  optim::LinearLR warmup(optimizer, {.start_factor = 0.5, .total_iters = 2});
  optim::ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 1});
  SequentialLR schedule(optimizer, {&warmup, &plateau}, {2});
  const std::vector<double> flat(8, 3.0);
  CHECK(rates(schedule, flat) == std::vector<double>{0.5, 0.75, 1, 1, 1, 0.5, 0.5, 0.25});
}

TEST_CASE("SequentialLR: a plateau gets its metrics also where the sequence is part of another") {
  const std::vector<double> flat(8, 3.0), want{0.5, 0.75, 1, 1, 1, 0.5, 0.5, 0.25};
  for (const bool chained : {true, false}) {
    CAPTURE(chained);
    SGD optimizer(one_param(), {.lr = 1});
    optim::LinearLR warmup(optimizer, {.start_factor = 0.5, .total_iters = 2});
    optim::ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 1});
    optim::LambdaLR one(optimizer, [](int64_t) { return 1.0; });
    if (chained) {
      SequentialLR inner(optimizer, {&warmup, &plateau}, {2});
      ChainedLR schedule(optimizer, {&inner, &one});
      CHECK(rates(schedule, flat) == want);
    } else {
      SequentialLR inner(optimizer, {&one, &plateau}, {1});  // from epoch 2 on
      SequentialLR schedule(optimizer, {&warmup, &inner}, {2});
      CHECK(rates(schedule, flat) == std::vector<double>{0.5, 0.75, 1, 1, 1, 1, 0.5, 0.5});
    }
  }
}

TEST_CASE("ChainedLR: the product of what each schedule does, as PyTorch's") {
  SGD optimizer(one_param(), {.lr = 0.2});
  optim::LinearLR warmup(optimizer, {.start_factor = 0.25, .total_iters = 6});
  optim::StepLR steps(optimizer, {.step_size = 4, .gamma = 0.5});
  optim::PolynomialLR poly(optimizer, {.total_iters = 30, .power = 1.5});
  ChainedLR schedule(optimizer, {&warmup, &steps, &poly});
  check_rates(rates(schedule, 21), golden::kChained);
}

TEST_CASE(
    "ChainedLR: a part that reaches 0 takes the rate there, and a part that rises brings it back") {
  const Tensor a = one_param()[0], b = one_param()[0];
  SGD optimizer({{.params = {a}}, {.params = {b}, .lr = 0.0}}, {.lr = 1});
  optim::LambdaLR gate(optimizer, [](int64_t epoch) { return epoch == 1 ? 0.0 : 1.0; });
  optim::StepLR steps(optimizer, {.step_size = 2, .gamma = 0.5});
  ChainedLR schedule(optimizer, {&gate, &steps});
  CHECK(rates(schedule, 4) == std::vector<double>{1, 0, 0.5, 0.5});
  CHECK(optimizer.lr(1) == 0);
}

TEST_CASE("ChainedLR: a reduction lowers what the other schedule sets, at once and from then on") {
  SGD optimizer(one_param(), {.lr = 1});
  optim::LinearLR anneal(optimizer, {.start_factor = 1, .end_factor = 0, .total_iters = 4});
  optim::ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  ChainedLR schedule(optimizer, {&anneal, &plateau});
  schedule.observe(1);
  schedule.step();
  CHECK(optimizer.lr() == 0.75);
  schedule.observe(1);
  CHECK(optimizer.lr() == 0.375);
  schedule.step();
  CHECK(optimizer.lr() == 0.25);
}

TEST_CASE("chains: parts that do not fit are refused") {
  SGD optimizer(one_param(), {.lr = 1}), other(one_param(), {.lr = 1});
  optim::StepLR a(optimizer, {}), b(other, {});
  CHECK_THROWS_WITH_AS(SequentialLR(optimizer, {&a, &b}, {2}),
                       doctest::Contains("of this optimizer"), ValueError);
  CHECK_THROWS_WITH_AS(SequentialLR(optimizer, {&a}, {2}), doctest::Contains("one milestone fewer"),
                       ValueError);
  CHECK_THROWS_WITH_AS(SequentialLR(optimizer, {&a, &a, &a}, {2, 2}),
                       doctest::Contains("milestone 2 must be above 2"), ValueError);
  CHECK_THROWS_WITH_AS(ChainedLR(optimizer, {&a, &b}), doctest::Contains("of this optimizer"),
                       ValueError);
  CHECK_THROWS_WITH_AS(ChainedLR(optimizer, {}), doctest::Contains("no schedules"), ValueError);

  optim::ReduceLROnPlateau one(optimizer, {}), two(optimizer, {.maximize = true});
  ChainedLR chain(optimizer, {&one, &two});
  CHECK_THROWS_WITH_AS(ChainedLR(optimizer, {&chain}),
                       doctest::Contains("a ChainedLR cannot be part"), ValueError);
  CHECK_THROWS_WITH_AS(chain.lr_at(1, 1, 1),
                       doctest::Contains("ChainedLR: has no formula of its own"), StateError);
}

}  // namespace
}  // namespace lathe
