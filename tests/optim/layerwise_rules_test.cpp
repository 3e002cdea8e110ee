// LARS, LAMB and NovoGrad against their papers' formulas (optim/kernels/layerwise_math.h), written out here
// once more in double for whole tensors, over several steps with all options.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"

namespace lathe {
namespace {

using optim::LAMBOptions;
using optim::LARSOptions;
using optim::NovoGradOptions;
using Values = std::vector<double>;

double norm(const Values& x) {
  double sum = 0;
  for (const double a : x) sum += a * a;
  return std::sqrt(sum);
}

/// The state of one tensor in the reference.
struct Layer {
  Values p, m, v;
  double second = 0;  // NovoGrad's
  int t = 0;

  explicit Layer(Values values) : p(std::move(values)), m(p.size(), 0), v(p.size(), 0) {}
};
using Rule = std::function<void(Layer&, const Values& g)>;

Rule lars_rule(LARSOptions o) {
  return [o](Layer& x, const Values& g) {
    const double p_norm = norm(x.p), g_norm = norm(g);
    double trust = 1;
    if (o.adapt && p_norm != 0 && g_norm != 0) {
      trust = o.trust_coefficient * p_norm / (g_norm + o.weight_decay * p_norm);
    }
    for (size_t i = 0; i < g.size(); ++i) {
      x.m[i] = o.momentum * x.m[i] + o.lr * trust * (g[i] + o.weight_decay * x.p[i]);
      x.p[i] = x.p[i] - x.m[i];
    }
  };
}

Rule lamb_rule(LAMBOptions o) {
  return [o](Layer& x, const Values& g) {
    ++x.t;
    Values u(g.size());
    const double first = o.bias_correction ? 1 - std::pow(o.betas.first, x.t) : 1;
    const double second = o.bias_correction ? 1 - std::pow(o.betas.second, x.t) : 1;
    for (size_t i = 0; i < g.size(); ++i) {
      x.m[i] = o.betas.first * x.m[i] + (1 - o.betas.first) * g[i];
      x.v[i] = o.betas.second * x.v[i] + (1 - o.betas.second) * g[i] * g[i];
      u[i] = x.m[i] / first / (std::sqrt(x.v[i] / second) + o.eps) + o.weight_decay * x.p[i];
    }
    const double p_norm = norm(x.p), u_norm = norm(u);
    const double trust = o.adapt && p_norm != 0 && u_norm != 0 ? p_norm / u_norm : 1;
    for (size_t i = 0; i < g.size(); ++i) x.p[i] = x.p[i] - o.lr * trust * u[i];
  };
}

Rule novograd_rule(NovoGradOptions o) {
  return [o](Layer& x, const Values& g) {
    const double square = norm(g) * norm(g);
    x.second = ++x.t == 1 ? square : o.betas.second * x.second + (1 - o.betas.second) * square;
    const double divisor = std::sqrt(x.second) + o.eps;
    const double share = o.grad_averaging ? 1 - o.betas.first : 1;
    for (size_t i = 0; i < g.size(); ++i) {
      const double normed = divisor == 0 ? g[i] : g[i] / divisor;
      x.m[i] = o.betas.first * x.m[i] + share * (normed + o.weight_decay * x.p[i]);
      x.p[i] = x.p[i] - o.lr * x.m[i];
    }
  };
}

struct Case {
  std::string name;
  std::function<Rule(double lr)> rule;
  double lr;
  std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)> make;
};

Case lars(std::string name, LARSOptions o) {
  const auto rule = [o](double lr) mutable { return o.lr = lr, lars_rule(o); };
  return {"LARS " + name, rule, o.lr,
          [o](const Tensors& p) { return std::make_unique<optim::LARS>(p, o); }};
}
Case lamb(std::string name, LAMBOptions o) {
  const auto rule = [o](double lr) mutable { return o.lr = lr, lamb_rule(o); };
  return {"LAMB " + name, rule, o.lr,
          [o](const Tensors& p) { return std::make_unique<optim::LAMB>(p, o); }};
}
Case novograd(std::string name, NovoGradOptions o) {
  const auto rule = [o](double lr) mutable { return o.lr = lr, novograd_rule(o); };
  return {"NovoGrad " + name, rule, o.lr,
          [o](const Tensors& p) { return std::make_unique<optim::NovoGrad>(p, o); }};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      lars("plain", {.lr = 2, .trust_coefficient = 0.02}),
      lars("decay", {.lr = 2, .weight_decay = 0.3, .trust_coefficient = 0.02}),
      lars("no momentum", {.lr = 1, .momentum = 0, .trust_coefficient = 0.1}),
      lars("without trust ratio", {.lr = 0.05, .weight_decay = 0.3, .adapt = false}),
      lamb("plain", {.lr = 0.05, .weight_decay = 0}),
      lamb("decay", {.lr = 0.05, .weight_decay = 0.4}),
      lamb("betas and eps", {.lr = 0.05, .betas = {0.5, 0.7}, .eps = 0.1}),
      lamb("no bias correction", {.lr = 0.05, .bias_correction = false}),
      lamb("without trust ratio", {.lr = 0.05, .weight_decay = 0.4, .adapt = false}),
      novograd("plain", {.lr = 0.05}),
      novograd("decay", {.lr = 0.05, .weight_decay = 0.3}),
      novograd("betas and eps", {.lr = 0.05, .betas = {0.5, 0.25}, .eps = 0.1}),
      novograd("averaged", {.lr = 0.2, .grad_averaging = true}),
      novograd("eps 0", {.lr = 0.05, .eps = 0}),
  };
  return all;
}

constexpr int64_t kRows = 3, kColumns = 5;
constexpr int kSteps = 6;

/// Four tensors: plain ones, one of zeros (‖p‖ = 0), one whose gradient is 0 until step 4.
constexpr int kTensors = 4;
double start(int tensor, int64_t i) {
  return tensor == 2 ? 0 : (tensor + 1) * std::cos(0.6 * double(i) + tensor) + 0.1;
}
double gradient(int tensor, int64_t i, int step) {
  return tensor == 3 && step < 4 ? 0 : std::sin(1.7 * double(i) + tensor + 0.9 * step) / (1 + step);
}

Tensor filled(const Tensor& like, const std::function<double(int64_t)>& value) {
  Values values(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<int64_t>(i));
  copy_values(like, from_blob(values.data(), {kRows, kColumns}));
  return like;
}

Tensor make(bool transposed, DType dtype) {
  if (!transposed) return empty({kRows, kColumns}, {.dtype = dtype});
  return transpose(empty({kColumns, kRows}, {.dtype = dtype}), 0, 1).detach();
}

void check_against_rule(const Case& c, DType dtype, bool transposed, double tolerance) {
  INFO(c.name, ", ", name_of(dtype), ", transposed gradients: ", transposed);
  Tensors params;
  std::vector<Layer> reference;
  for (int k = 0; k < kTensors; ++k) {
    params.push_back(filled(make(false, dtype), [k](int64_t i) { return start(k, i); }));
    params.back().requires_grad_();
    reference.emplace_back(params.back().to_vector<double>());
  }
  const auto optimizer = c.make(params);
  for (int s = 0; s < kSteps; ++s) {
    const double lr = s < 3 ? c.lr : c.lr / 4;  // it stands inside or outside of a buffer
    optimizer->set_lr(lr);
    for (int k = 0; k < kTensors; ++k) {
      const auto at = static_cast<size_t>(k);
      params[at].set_grad({});
      if (k == 1 && s == 2) continue;  // without gradient nothing happens to the parameter
      const Tensor g =
          filled(make(transposed, dtype), [&](int64_t i) { return gradient(k, i, s); });
      params[at].set_grad(g);
      c.rule(lr)(reference[at], g.to_vector<double>());
    }
    optimizer->step();
    for (size_t k = 0; k < params.size(); ++k) {
      const auto got = params[k].to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("step ", s, ", tensor ", k, ", element ", i, ": got ", got[i], ", want ",
             reference[k].p[i]);
        CHECK(std::abs(got[i] - reference[k].p[i]) <=
              tolerance * (std::abs(reference[k].p[i]) + 1));
      }
    }
  }
}

TEST_CASE("layer-wise optimisers follow their papers in f64, f32 and half") {
  for (const Case& c : cases()) {
    check_against_rule(c, kF64, false, 1e-12);
    check_against_rule(c, kF64, true, 1e-12);
    check_against_rule(c, kF32, false, 1e-5);
    // A half parameter is rounded after each of the 6 steps, and that changes norms and gradients'
    // weight in the next: about 8 half ulps of values up to 4.
    check_against_rule(c, kF16, false, 8 * 0x1p-11);
    check_against_rule(c, kBF16, false, 8 * 0x1p-8);
  }
}

TEST_CASE("LARS, LAMB: without trust ratio a group is momentum SGD, and Adam with decay") {
  const Tensor p = ones({3}, {.dtype = kF64, .requires_grad = true});
  const Tensor q = ones({3}, {.dtype = kF64, .requires_grad = true});
  optim::LARS lars({{.params = {p}}, {.params = {q}, .lr = 0.1, .adapt = false}}, {.lr = 2});
  for (const Tensor& t : {p, q}) t.set_grad(full({3}, 0.5, {.dtype = kF64}));
  lars.step();
  // ‖p‖ / ‖g‖ = 2
  CHECK(p.to_vector<double>()[0] == doctest::Approx(1 - 2 * 0.001 * 2 * 0.5).epsilon(1e-14));
  CHECK(q.to_vector<double>()[0] == doctest::Approx(1 - 0.1 * 0.5).epsilon(1e-14));
}

TEST_CASE("layer-wise optimisers: the number of threads changes no bit") {
  const int threads = num_threads();
  for (const Case& c : cases()) {
    INFO(c.name);
    std::vector<std::vector<float>> results;
    for (const int count : {1, 3}) {
      set_num_threads(count);
      Generator generator(5);
      Tensors params;
      for (const int64_t n : {70000, 3, 0, 1, 40000}) {
        params.push_back(randn({n}, {.requires_grad = true}, &generator));
        params.back().set_grad(randn({n}, {}, &generator));
      }
      const auto optimizer = c.make(params);
      for (int s = 0; s < 2; ++s) optimizer->step();
      std::vector<float> all;
      for (const Tensor& p : params) {
        for (const float x : p.to_vector<float>()) all.push_back(x);
      }
      results.push_back(std::move(all));
    }
    CHECK(results[0] == results[1]);
  }
  set_num_threads(threads);
}

TEST_CASE("layer-wise optimisers: a step that overflowed changes nothing") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const Tensor p = ones({40}, {.requires_grad = true});
    const auto optimizer = c.make({p});
    p.set_grad(full({40}, 0.25));
    optimizer->step();
    const auto everything = [&] {
      std::vector<std::vector<double>> all = {p.to_vector<double>()};
      for (const auto& [name, t] : optimizer->state_dict()) all.push_back(t.to_vector<double>());
      return all;
    };
    const auto before = everything();
    optimizer->step({.found_inf = ones({})});
    CHECK(everything() == before);
    optimizer->step({.found_inf = zeros({})});
    CHECK(everything() != before);
  }
}

TEST_CASE("layer-wise optimisers: bad numbers are refused by name") {
  const Tensors p = {ones({2}, {.requires_grad = true})};
  CHECK_THROWS_WITH_AS(optim::LARS(p, {.trust_coefficient = -1}),
                       doctest::Contains("LARS: trust_coefficient"), ValueError);
  CHECK_THROWS_WITH_AS(optim::LAMB(p, {.betas = {1, 0.9}}), doctest::Contains("LAMB: beta1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(optim::NovoGrad(p, {.eps = std::nan("")}),
                       doctest::Contains("NovoGrad: eps"), ValueError);
}

}  // namespace
}  // namespace lathe
