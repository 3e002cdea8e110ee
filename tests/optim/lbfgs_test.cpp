// LBFGS: PyTorch's steps, minima that are reached, state, and the errors.
#include "lathe/optim/lbfgs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "../cuda_case.h"
#include "golden_lbfgs.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/line_search.h"

using namespace lathe;
using doctest::Approx;
using doctest::Contains;
using optim::LBFGS;

namespace {

/// Rosenbrock's function of four variables, which are two parameters.
struct Problem {
  Tensor a, b;
  int calls = 0;

  explicit Problem(DType dtype = kF64, Device device = kCPU) {
    const Tensor x = tensor(golden::kStart).to(dtype).to(device);
    a = x.slice(0, 0, 1).clone().requires_grad_();
    b = x.slice(0, 1, 4).clone().requires_grad_();
  }
  Tensor operator()() {
    ++calls;
    a.set_grad({}), b.set_grad({});
    const Tensor x = cat({a, b});
    const Tensor low = x.slice(0, 0, 3), high = x.slice(0, 1, 4);
    const Tensor loss = ((high - low.square()).square() * 100 + (1 - low).square()).sum();
    loss.backward();
    return loss;
  }
  std::vector<double> x() const { return cat({a.detach(), b.detach()}).to_vector<double>(); }
};

}  // namespace

TEST_CASE("LBFGS: the steps are PyTorch's") {
  for (const golden::LbfgsCase& c : golden::kLbfgs) {
    INFO(std::string(c.name));
    Problem problem;
    LBFGS opt({problem.a, problem.b}, c.options);
    for (size_t i = 0; i < c.steps.size(); ++i) {
      INFO("step " << i);
      const golden::LbfgsStep& step = c.steps[i];
      const Tensor loss = opt.step([&] { return problem(); });
      // Sums in another order: 1e-16, which the iterations of a narrow valley magnify.
      CHECK(loss.item<double>() == Approx(step.loss).epsilon(1e-8));
      const std::vector<double> x = problem.x();
      for (size_t j = 0; j < x.size(); ++j) CHECK(x[j] == Approx(step.x[j]).epsilon(1e-8));
      CHECK(opt.evaluations() == step.evaluations);
      CHECK(opt.iterations() == step.iterations);
      CHECK(problem.calls == step.evaluations);
    }
  }
}

TEST_CASE("LBFGS: finds the minimum in f32, and of a least-squares problem") {
  Problem problem(kF32);
  LBFGS opt({problem.a, problem.b}, {.max_iter = 100, .strong_wolfe = true});
  opt.step([&] { return problem(); });
  for (const double x : problem.x()) CHECK(x == Approx(1).epsilon(1e-3));

  const Tensor m = randn({8, 5}, {.dtype = kF64}), target = randn({8}, {.dtype = kF64});
  const Tensor w = zeros({5}, {.dtype = kF64, .requires_grad = true});
  LBFGS linear({w}, {.max_iter = 50, .tolerance_change = 0, .strong_wolfe = true});
  linear.step([&] {
    linear.zero_grad();
    const Tensor loss = (matmul(m, w) - target).square().sum();
    loss.backward();
    return loss;
  });
  const Tensor residual = matmul(transpose(m, 0, 1), matmul(m, w.detach()) - target);
  CHECK(residual.abs().max().item<double>() < 1e-6);  // the normal equations
}

TEST_CASE("LBFGS: on a GPU as on the CPU" * test::cuda_case()) {
  Problem here, there(kF64, Device("cuda:0"));
  LBFGS a({here.a, here.b}, {.max_iter = 6, .strong_wolfe = true});
  LBFGS b({there.a, there.b}, {.max_iter = 6, .strong_wolfe = true});
  a.step([&] { return here(); });
  b.step([&] { return there(); });
  for (size_t j = 0; j < 4; ++j) CHECK(there.x()[j] == Approx(here.x()[j]).epsilon(1e-9));
}

TEST_CASE("LBFGS: a closure that throws leaves parameters and state as they were") {
  Problem problem;
  LBFGS opt({problem.a, problem.b}, {.strong_wolfe = true});
  opt.step([&] { return problem(); });
  const std::vector<double> x = problem.x();
  const StateDict before = opt.state_dict().clone();
  const int stop = problem.calls + 3;
  CHECK_THROWS_WITH(opt.step([&] {
    if (problem.calls == stop) throw std::runtime_error("no");
    return problem();
  }),
                    Contains("no"));
  CHECK(problem.x() == x);
  for (const auto& [name, t] : opt.state_dict()) {
    CHECK(t.to_vector<double>() == before.at(name).to_vector<double>());
  }
}

TEST_CASE("LBFGS: bad parameters, options and losses are errors") {
  const Tensor p = zeros({2}).requires_grad_(), q = zeros({2}, {.dtype = kF64});
  CHECK_THROWS_WITH_AS(LBFGS({}), Contains("no parameters"), ValueError);
  CHECK_THROWS_WITH_AS(LBFGS({p, p}), Contains("parameters 0 and 1 are the same"), ValueError);
  CHECK_THROWS_WITH_AS(LBFGS({Tensor()}), Contains("parameter 0 is undefined"), ValueError);
  CHECK_THROWS_WITH_AS(LBFGS({p, q}), Contains("parameter 1: "), DTypeError);
  CHECK_THROWS_WITH_AS(LBFGS({zeros({2}, {.dtype = kF16})}), Contains("parameter 0: f16[2]@cpu"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(LBFGS({p * 2}), Contains("parameter 0 is not a leaf"), StateError);
  CHECK_THROWS_WITH_AS(LBFGS({p}, {.lr = -1}), Contains("lr cannot be -1"), ValueError);
  CHECK_THROWS_WITH_AS(LBFGS({p}, {.max_iter = 0}), Contains("max_iter cannot be 0"), ValueError);
  CHECK_THROWS_WITH_AS(LBFGS({p}, {.history_size = 0}), Contains("history_size cannot be 0"),
                       ValueError);
  LBFGS opt({p});
  CHECK_THROWS_WITH_AS(opt.set_lr(NAN), Contains("lr cannot be nan"), ValueError);
  CHECK_THROWS_WITH_AS(opt.step([&] { return zeros({2}); }), Contains("must return the loss"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(opt.step([] { return Tensor(); }), Contains("it returned "), ShapeError);
  CHECK(opt.evaluations() == 0);
}

TEST_CASE("search_line: lengths and evaluations are PyTorch's") {
  for (const golden::LineCase& c : golden::kLineSearches) {
    const std::string curve = c.curve;
    INFO(curve << ", first " << c.first << ", curvature " << c.curvature);
    const auto f = [&](double t) {
      if (curve == "line") return optim::LinePoint{t, -2 * t, -2, {}};
      const double e = std::exp(8 * (t - 1)), u = t - 3;
      if (curve == "exp") return optim::LinePoint{t, e - 2 * t, 8 * e - 2, {}};
      return optim::LinePoint{t,
                              0.06 * std::sin(5 * t) + 0.05 * u * u - 0.2 * t,
                              0.3 * std::cos(5 * t) + 0.1 * u - 0.2,
                              {}};
    };
    const optim::LineSearchResult r =
        search_line(f(0), c.first, f, {.largest_component = 1, .curvature = c.curvature});
    CHECK(r.point.t == Approx(c.t).epsilon(1e-10));
    CHECK(r.evaluations == c.evaluations);
  }
}

TEST_CASE("search_line: the result satisfies the strong Wolfe conditions, from any first step") {
  const auto f = [](double t) {  // a narrow well in a wide bowl
    const double u = t - 3, well = std::exp(-u * u);
    return optim::LinePoint{t, 0.01 * u * u - well, 0.02 * u + 2 * u * well, {}};
  };
  const optim::LinePoint start = f(0);
  for (const double first : {1e-3, 0.1, 1.0, 2.9, 5.0, 40.0}) {
    INFO(first);
    int calls = 0;
    const auto counted = [&](double t) {
      ++calls;
      return f(t);
    };
    const optim::LineSearchResult r = search_line(start, first, counted, {.largest_component = 1});
    CHECK(r.evaluations == calls);
    CHECK(r.point.loss <= start.loss + 1e-4 * r.point.t * start.slope);
    CHECK(std::abs(r.point.slope) <= 0.9 * std::abs(start.slope));
  }
  for (const double beyond : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const auto well = [&](double t) {
      return t > 1 ? optim::LinePoint{t, beyond, 1, {}}
                   : optim::LinePoint{t, (t - 0.5) * (t - 0.5), 2 * (t - 0.5), {}};
    };
    const optim::LineSearchResult r = search_line(well(0), 8, well, {.largest_component = 1});
    CHECK(r.point.loss < 0.25);
  }
}
