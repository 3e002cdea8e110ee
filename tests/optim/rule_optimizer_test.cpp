// The optimisers of optim/rule_optimizer.h: against PyTorch, Lion against its paper's formula.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "golden_rules.h"
#include "lathe/core/copy.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/random.h"
#include "loss_scaling.h"
#include "make_optimizer.h"
#include "rule_optimizers.h"

using namespace lathe;
using namespace lathe::optim;
using namespace lathe::test;

namespace {

constexpr int64_t kCount = 6;
constexpr int kSteps = 10;

/// The numbers of golden_rules.py.
std::vector<double> values(int64_t factor, int64_t step) {
  std::vector<double> out;
  for (int64_t i = 0; i < kCount; ++i)
    out.push_back(static_cast<double>((factor * i + 5 * step) % 11 - 5) / 8);
  return out;
}

std::vector<double> after_steps(const MakeOptimizer& make_one, DType dtype) {
  const Tensor p = tensor(values(3, 0), dtype);
  p.requires_grad_();
  const auto optimizer = make_one({p});
  for (int64_t step = 0; step < kSteps; ++step) {
    p.set_grad(tensor(values(7, step), dtype));
    optimizer->step();
  }
  return p.to_vector<double>();
}

struct Case {
  std::string name;
  MakeOptimizer make;
  std::vector<double> want;
};

/// Lion by its paper's algorithm 2, an element at a time.
std::vector<double> lion(const LionOptions& o) {
  std::vector<double> p = values(3, 0), m(p.size(), 0);
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<double> g = values(7, step);
    for (size_t i = 0; i < p.size(); ++i) {
      const double c = o.betas.first * m[i] + (1 - o.betas.first) * g[i];
      const double sign = c == 0 ? 0 : std::copysign(1, c);
      p[i] = p[i] - o.lr * (sign + o.weight_decay * p[i]);
      m[i] = o.betas.second * m[i] + (1 - o.betas.second) * g[i];
    }
  }
  return p;
}

const std::vector<Case>& cases() {
  const Betas quick{0.75, 0.5};
  const LionOptions plain{.lr = 0.1};
  const LionOptions decay{.lr = 0.1, .betas = quick, .weight_decay = 0.5};
  static const std::vector<Case> all = {
      {"Adagrad", make<Adagrad>(AdagradOptions{.lr = 0.1}), golden::kAdagrad},
      {"Adagrad options",
       make<Adagrad>(AdagradOptions{.lr = 0.1,
                                    .lr_decay = 0.25,
                                    .weight_decay = 0.125,
                                    .initial_accumulator_value = 0.5,
                                    .eps = 0.01}),
       golden::kAdagradOptions},
      {"Adadelta", make<Adadelta>(AdadeltaOptions{}), golden::kAdadelta},
      {"Adadelta options",
       make<Adadelta>(AdadeltaOptions{.lr = 0.5, .rho = 0.75, .eps = 0.01, .weight_decay = 0.125}),
       golden::kAdadeltaOptions},
      {"Adamax", make<Adamax>(AdamaxOptions{.lr = 0.1}), golden::kAdamax},
      {"Adamax options",
       make<Adamax>(AdamaxOptions{.lr = 0.1, .betas = quick, .eps = 0.01, .weight_decay = 0.125}),
       golden::kAdamaxOptions},
      {"NAdam", make<NAdam>(NAdamOptions{.lr = 0.1}), golden::kNAdam},
      {"NAdam options",
       make<NAdam>(NAdamOptions{
           .lr = 0.1, .betas = quick, .eps = 0.01, .weight_decay = 0.125, .momentum_decay = 0.5}),
       golden::kNAdamOptions},
      {"NAdam decoupled",
       make<NAdam>(NAdamOptions{.lr = 0.1, .weight_decay = 0.5, .decoupled_weight_decay = true}),
       golden::kNAdamDecoupled},
      {"RAdam", make<RAdam>(RAdamOptions{.lr = 0.1}), golden::kRAdam},
      {"RAdam options",
       make<RAdam>(
           RAdamOptions{.lr = 0.1, .betas = {0.75, 0.875}, .eps = 0.01, .weight_decay = 0.125}),
       golden::kRAdamOptions},
      {"RAdam decoupled",
       make<RAdam>(RAdamOptions{.lr = 0.1, .weight_decay = 0.5, .decoupled_weight_decay = true}),
       golden::kRAdamDecoupled},
      {"Lion", make<Lion>(plain), lion(plain)},
      {"Lion decay", make<Lion>(decay), lion(decay)},
  };
  return all;
}

}  // namespace

TEST_CASE("rule optimisers: ten steps are PyTorch's, Lion's its paper's") {
  for (const Case& c : cases()) {
    for (const DType dtype : {kF64, kF32}) {
      const std::vector<double> got = after_steps(c.make, dtype);
      for (size_t i = 0; i < got.size(); ++i) {
        INFO(c.name, ", ", name_of(dtype), ", element ", i, ": got ", got[i], ", want ", c.want[i]);
        CHECK(std::abs(got[i] - c.want[i]) <= (dtype == kF64 ? 1e-12 : 1e-5));
      }
    }
  }
}

TEST_CASE(
    "rule optimisers: NAdam's product of momenta, worked out from the step, is exact in all") {
  // After 400 steps the product is below the last place of 1; both sides of that are compared with
  // a product that is kept, as PyTorch keeps it.
  const NAdamOptions o{.lr = 1e-3};
  const Tensor p = tensor(1.0, {.dtype = kF64, .requires_grad = true});
  NAdam optimizer({p}, o);
  double want = 1, m = 0, v = 0, product = 1;
  for (int t = 1; t <= 500; ++t) {
    const double g = std::sin(0.7 * t);
    p.set_grad(tensor(g, kF64));
    optimizer.step();
    const double mu = 0.9 * (1 - 0.5 * std::pow(0.96, t * 4e-3));
    const double next = 0.9 * (1 - 0.5 * std::pow(0.96, (t + 1) * 4e-3));
    product *= mu;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double divisor = std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8;
    want -= o.lr * ((1 - mu) / (1 - product) * g + next / (1 - product * next) * m) / divisor;
    CAPTURE(t);
    REQUIRE(p.item<double>() == doctest::Approx(want).epsilon(1e-12));
  }
}

TEST_CASE("rule optimisers: the number of threads changes no bit") {
  const int threads = num_threads();
  for (const MakeOptimizer& make_one : rule_optimizers()) {
    std::vector<std::vector<float>> results;
    for (const int count : {1, 3}) {
      set_num_threads(count);
      Generator generator(5);
      Tensors params;
      for (const int64_t n : {70000, 3, 0, 40000}) {
        params.push_back(param(randn({n}, {}, &generator), kCPU));
        params.back().set_grad(randn({n}, {}, &generator));
      }
      const auto optimizer = make_one(params);
      for (int s = 0; s < 3; ++s) optimizer->step();
      std::vector<float>& all = results.emplace_back();
      for (const Tensor& p : params) {
        for (const float x : p.to_vector<float>()) all.push_back(x);
      }
    }
    CHECK(results[0] == results[1]);
  }
  set_num_threads(threads);
}

TEST_CASE("rule optimisers: a group has options of its own, bad ones are refused by name") {
  const Tensor p = param(ones({2}), kCPU), q = param(ones({2}), kCPU);
  const NAdam optimizer({{.params = {p}}, {.params = {q}, .lr = 0.5, .betas = Betas{0.5, 0.25}}},
                        {.momentum_decay = 0.25, .decoupled_weight_decay = true});
  CHECK(optimizer.hyper_parameter("lr", 0) == 2e-3);
  CHECK(optimizer.hyper_parameter("beta1", 0) == 0.9);
  CHECK(optimizer.hyper_parameter("lr", 1) == 0.5);
  CHECK(optimizer.hyper_parameter("beta2", 1) == 0.25);
  CHECK(optimizer.hyper_parameter("momentum_decay", 1) == 0.25);
  CHECK(optimizer.hyper_parameter("decoupled_weight_decay", 1) == 1);
  CHECK(Lion({p}, 0.25).lr() == 0.25);
  CHECK_THROWS_WITH_AS(Adadelta({p}, {.rho = 1}),
                       doctest::Contains("Adadelta: rho must be in [0,1), got 1"), ValueError);
  CHECK_THROWS_WITH_AS(Adagrad({p}, {.initial_accumulator_value = -1}),
                       doctest::Contains("Adagrad: initial_accumulator_value"), ValueError);
  CHECK_THROWS_WITH_AS(Lion({p}, {.betas = {0.9, 1}}), doctest::Contains("Lion: beta2"),
                       ValueError);
}
