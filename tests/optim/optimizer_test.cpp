// Groups, named state and constructor errors of the optimisers.
#include "lathe/optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"

namespace lathe {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor param(int64_t n, double value = 1.0) {
  const Tensor p = full({n}, value, {.dtype = kF64});
  p.requires_grad_();
  return p;
}

void set_grads(const Tensors& params, uint64_t seed) {
  Generator generator(seed);
  for (const Tensor& p : params) p.set_grad(randn(p.shape(), {.dtype = p.dtype()}, &generator));
}

TEST_CASE("optimizer: groups have options of their own") {
  const Tensor decayed = param(2), rest = param(2);
  optim::AdamW two(
      {{.params = {decayed}, .weight_decay = 0.5}, {.params = {rest}, .weight_decay = 0.0}},
      {.lr = 0.1});
  CHECK(two.num_groups() == 2);
  CHECK(two.hyper_parameter("weight_decay", 0) == 0.5);
  CHECK(two.hyper_parameter("weight_decay", 1) == 0.0);
  CHECK(two.lr(0) == 0.1);
  decayed.set_grad(zeros({2}, {.dtype = kF64}));
  rest.set_grad(zeros({2}, {.dtype = kF64}));
  two.step();
  CHECK(decayed.to_vector<double>() == std::vector<double>(2, 1 - 0.1 * 0.5));
  CHECK(rest.to_vector<double>() == std::vector<double>(2, 1.0));

  two.set_lr(1, 0.3);
  CHECK(two.lr(0) == 0.1);
  CHECK(two.lr(1) == 0.3);
  two.set_lr(0.2);
  CHECK(two.lr(1) == 0.2);
  CHECK(two.initial_lr(1) == 0.1);
  CHECK_THROWS_WITH_AS(two.set_lr(-1),
                       doctest::Contains("AdamW: lr must be finite and not negative, got -1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(two.lr(2), doctest::Contains("no group 2 among 2"), IndexError);
  CHECK_THROWS_WITH_AS(two.hyper_parameter("momentum"), doctest::Contains("\"momentum\""),
                       ValueError);
}

TEST_CASE("optimizer: zero_grad drops gradients, or zeroes them on request") {
  const Tensor a = param(3), b = param(3);
  optim::SGD optimizer({a, b}, {.lr = 0.1});
  a.set_grad(ones({3}, {.dtype = kF64}));
  optimizer.zero_grad({.set_to_none = false});
  CHECK(a.grad().to_vector<double>() == std::vector<double>(3, 0.0));
  CHECK_FALSE(b.grad().defined());
  optimizer.zero_grad();
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("optimizer: a parameter without gradient keeps its step count") {
  const Tensor a = param(2), b = param(2);
  optim::Adam optimizer({a, b});
  for (int s = 0; s < 3; ++s) {
    a.set_grad(ones({2}, {.dtype = kF64}));
    b.set_grad(s == 1 ? ones({2}, {.dtype = kF64}) : Tensor());
    optimizer.step();
  }
  const StateDict state = optimizer.state_dict();
  CHECK(state.number<int64_t>("state.0.step") == 3);
  CHECK(state.number<int64_t>("state.1.step") == 1);
  // b's only update was its own first step: Adam's first step is lr in the gradient's direction.
  CHECK(b.to_vector<double>()[0] == doctest::Approx(1 - 1e-3).epsilon(1e-7));
}

TEST_CASE("optimizer: state that no longer fits its parameter is an error before anything moves") {
  const Tensor a = param(2), b = param(2);
  optim::SGD optimizer({a, b}, {.lr = 0.1, .momentum = 0.9});
  set_grads({a, b}, 1);
  optimizer.step();
  b.set_data(zeros({3}, {.dtype = kF64}));
  set_grads({a, b}, 2);
  const auto before = a.to_vector<double>();
  CHECK_THROWS_WITH_AS(
      optimizer.step(),
      doctest::Contains("momentum_buffer of parameter 1 no longer fits its parameter (state: "
                        "f64[2]@cpu, parameter: f64[3]@cpu)"),
      StateError);
  CHECK(a.to_vector<double>() == before);
  CHECK(optimizer.state_dict().number<int64_t>("state.0.step") == 1);
}

TEST_CASE("optimizer: constructor errors name the option and its value") {
  const Tensor p = param(1);
  const Tensors ps = {p};
  using namespace optim;
  for (const double bad : {-0.5, kNaN, std::numeric_limits<double>::infinity()}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(SGD(ps, {.lr = bad}), doctest::Contains("SGD: lr must be"), ValueError);
    CHECK_THROWS_WITH_AS(SGD(ps, {.momentum = bad}), doctest::Contains("momentum"), ValueError);
    CHECK_THROWS_WITH_AS(SGD(ps, {.weight_decay = bad}), doctest::Contains("weight_decay"),
                         ValueError);
    CHECK_THROWS_WITH_AS(Adam(ps, {.lr = bad}), doctest::Contains("Adam: lr must be"), ValueError);
    CHECK_THROWS_WITH_AS(Adam(ps, {.eps = bad}), doctest::Contains("eps"), ValueError);
    CHECK_THROWS_WITH_AS(Adam(ps, {.weight_decay = bad}), doctest::Contains("weight_decay"),
                         ValueError);
    CHECK_THROWS_WITH_AS(AdamW(ps, {.lr = bad}), doctest::Contains("AdamW: lr must be"),
                         ValueError);
    CHECK_THROWS_WITH_AS(RMSprop(ps, {.lr = bad}), doctest::Contains("RMSprop: lr must be"),
                         ValueError);
    CHECK_THROWS_WITH_AS(RMSprop(ps, {.eps = bad}), doctest::Contains("eps"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop(ps, {.momentum = bad}), doctest::Contains("momentum"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop(ps, {.weight_decay = bad}), doctest::Contains("weight_decay"),
                         ValueError);
  }
  for (const double bad : {-0.1, 1.0, kNaN}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(Adam(ps, {.betas = {bad, 0.9}}),
                         doctest::Contains("beta1 must be in [0,1)"), ValueError);
    CHECK_THROWS_WITH_AS(AdamW(ps, {.betas = {0.9, bad}}),
                         doctest::Contains("beta2 must be in [0,1)"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop(ps, {.alpha = bad}), doctest::Contains("alpha must be in [0,1)"),
                         ValueError);
  }
  CHECK_THROWS_WITH_AS(SGD(ps, {.dampening = kNaN}), doctest::Contains("dampening"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(ps, {.nesterov = true}),
                       doctest::Contains("nesterov needs a momentum above 0"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(ps, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
                       doctest::Contains("got momentum 0.9 and dampening 0.1"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(Tensors{}), doctest::Contains("has no parameters"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(std::vector<SGDGroup>{}),
                       doctest::Contains("empty list of parameter groups"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(Tensors{p, p}),
                       doctest::Contains("parameter 1 of group 0 appears twice"), ValueError);
  CHECK_THROWS_WITH_AS(SGD({{.params = {p}}, {.params = {p}}}),
                       doctest::Contains("of group 1 appears twice"), ValueError);
  CHECK_THROWS_WITH_AS(SGD(Tensors{Tensor()}),
                       doctest::Contains("parameter 0 of group 0 is undefined"), ValueError);
  CHECK_THROWS_WITH_AS(SGD({ones({2}, {.dtype = kI64})}),
                       doctest::Contains("is not floating (i64[2]@cpu)"), DTypeError);
  CHECK_THROWS_WITH_AS(SGD({p * 2}), doctest::Contains("is not a leaf but the result of mul"),
                       StateError);
}

}  // namespace
}  // namespace lathe
