// Every optimiser against its formula (semantics in optim/kernels/update_math.h), written out here once
// more in double, one element at a time, over several steps with all options.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/half.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"

namespace lathe {
namespace {

using optim::AdamOptions;
using optim::AdamWOptions;
using optim::RMSpropOptions;
using optim::SGDOptions;

/// The state of one element in the reference.
struct Element {
  double p, a = 0, b = 0, c = 0;
  int t = 0;
};
using Rule = std::function<void(Element&, double g)>;

Rule sgd_rule(SGDOptions o) {
  return [o](Element& e, double g) {
    ++e.t;
    g = g + o.weight_decay * e.p;
    if (o.momentum != 0) {
      e.a = e.t == 1 ? g : o.momentum * e.a + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * e.a : e.a;
    }
    e.p = e.p - o.lr * g;
  };
}

Rule adam_rule(AdamOptions o, bool decoupled) {
  return [o, decoupled](Element& e, double g) {
    ++e.t;
    if (decoupled) e.p = e.p - o.lr * o.weight_decay * e.p;
    if (!decoupled) g = g + o.weight_decay * e.p;
    e.a = o.betas.first * e.a + (1 - o.betas.first) * g;
    e.b = o.betas.second * e.b + (1 - o.betas.second) * g * g;
    e.c = std::max(e.c, e.b);
    const double mean = e.a / (1 - std::pow(o.betas.first, e.t));
    const double square = (o.amsgrad ? e.c : e.b) / (1 - std::pow(o.betas.second, e.t));
    e.p = e.p - o.lr * mean / (std::sqrt(square) + o.eps);
  };
}

Rule rmsprop_rule(RMSpropOptions o) {
  return [o](Element& e, double g) {
    ++e.t;
    g = g + o.weight_decay * e.p;
    e.a = o.alpha * e.a + (1 - o.alpha) * g * g;
    e.c = o.alpha * e.c + (1 - o.alpha) * g;
    const double d = std::sqrt(o.centered ? e.a - e.c * e.c : e.a) + o.eps;
    e.b = o.momentum * e.b + g / d;
    e.p = e.p - o.lr * (o.momentum != 0 ? e.b : g / d);
  };
}

struct Case {
  std::string name;
  Rule rule;
  std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)> make;
};

Case sgd_case(std::string name, SGDOptions o) {
  return {"SGD " + name, sgd_rule(o),
          [o](const Tensors& p) { return std::make_unique<optim::SGD>(p, o); }};
}
Case adam_case(std::string name, AdamOptions o) {
  return {"Adam " + name, adam_rule(o, false),
          [o](const Tensors& p) { return std::make_unique<optim::Adam>(p, o); }};
}
Case adamw_case(std::string name, AdamWOptions o) {
  const AdamOptions same{o.lr, o.betas, o.eps, o.weight_decay, o.amsgrad};
  return {"AdamW " + name, adam_rule(same, true),
          [o](const Tensors& p) { return std::make_unique<optim::AdamW>(p, o); }};
}
Case rmsprop_case(std::string name, RMSpropOptions o) {
  return {"RMSprop " + name, rmsprop_rule(o),
          [o](const Tensors& p) { return std::make_unique<optim::RMSprop>(p, o); }};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      sgd_case("plain", {.lr = 0.1}),
      sgd_case("decay", {.lr = 0.1, .weight_decay = 0.3}),
      sgd_case("momentum", {.lr = 0.1, .momentum = 0.9}),
      sgd_case("dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.4}),
      sgd_case("nesterov", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = true}),
      adam_case("plain", {.lr = 0.02}),
      adam_case("decay", {.lr = 0.02, .weight_decay = 0.3}),
      adam_case("betas and eps", {.lr = 0.02, .betas = {0.5, 0.7}, .eps = 0.1}),
      adam_case("beta 0", {.lr = 0.02, .betas = {0, 0}}),
      adam_case("amsgrad", {.lr = 0.02, .betas = {0.9, 0.5}, .weight_decay = 0.1, .amsgrad = true}),
      adamw_case("plain", {.lr = 0.02}),
      adamw_case("decay", {.lr = 0.02, .weight_decay = 0.5}),
      adamw_case("amsgrad", {.lr = 0.02, .betas = {0.9, 0.5}, .amsgrad = true}),
      rmsprop_case("plain", {.lr = 0.02}),
      rmsprop_case("decay and momentum",
                   {.lr = 0.02, .alpha = 0.8, .weight_decay = 0.3, .momentum = 0.9}),
      rmsprop_case("centered", {.lr = 0.02, .alpha = 0.8, .eps = 0.01, .centered = true}),
      rmsprop_case("centered with momentum",
                   {.lr = 0.02, .alpha = 0.8, .eps = 0.01, .momentum = 0.5, .centered = true}),
  };
  return all;
}

constexpr int kSteps = 7;
constexpr int64_t kRows = 3, kColumns = 5;

/// Gradient of element i in step s: some shrink, some change sign, one is always 0.
double gradient(int64_t i, int s) {
  return i == 7 ? 0.0 : std::sin(1.7 * double(i) + 0.9 * s) / (1 + s);
}
double start(int64_t i) { return std::cos(0.6 * double(i)) + 0.1; }

Tensor filled(const Tensor& like, const std::function<double(int64_t)>& value) {
  std::vector<double> values(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<int64_t>(i));
  copy_values(like, from_blob(values.data(), {kRows, kColumns}));
  return like;
}

/// Ways in which a parameter (or its gradient) can lie in memory.
enum class Layout { kDense, kTransposed, kSliced };

Tensor make(Layout layout, DType dtype) {
  if (layout == Layout::kDense) return empty({kRows, kColumns}, {.dtype = dtype});
  if (layout == Layout::kTransposed) {
    return transpose(empty({kColumns, kRows}, {.dtype = dtype}), 0, 1).detach();
  }
  return slice(empty({kRows, 2 * kColumns}, {.dtype = dtype}), 1, 1, 2 * kColumns, 2).detach();
}

void check_against_rule(const Case& c, DType dtype, Layout param_layout, Layout grad_layout,
                        double tolerance) {
  INFO(c.name, ", ", name_of(dtype), ", parameter layout ", int(param_layout), ", gradient layout ",
       int(grad_layout));
  const Tensor p = filled(make(param_layout, dtype), start);
  p.requires_grad_();
  std::vector<Element> reference;
  for (const double value : p.to_vector<double>()) reference.push_back({.p = value});
  const auto optimizer = c.make({p});
  for (int s = 0; s < kSteps; ++s) {
    optimizer->zero_grad();
    if (s != 3) {  // step 3 finds no gradient: nothing at all happens to the parameter
      const Tensor g = filled(make(grad_layout, dtype), [&](int64_t i) { return gradient(i, s); });
      p.set_grad(g);
      const auto values = g.to_vector<double>();
      for (size_t i = 0; i < values.size(); ++i) c.rule(reference[i], values[i]);
    }
    const uint32_t version = p.version();
    optimizer->step();
    CHECK(p.version() == version + (s != 3 ? 1 : 0));
    const auto got = p.to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("step ", s, ", element ", i, ": got ", got[i], ", want ", reference[i].p);
      CHECK(std::abs(got[i] - reference[i].p) <= tolerance * (std::abs(reference[i].p) + 1));
    }
  }
}

TEST_CASE("optimisers follow their formulas in f64, f32 and half") {
  for (const Case& c : cases()) {
    check_against_rule(c, kF64, Layout::kDense, Layout::kDense, 1e-12);
    check_against_rule(c, kF32, Layout::kDense, Layout::kDense, 1e-5);
    // A half parameter is rounded after each of the 7 steps: about 7 half ulps, 2^-11 and 2^-8
    // each.
    check_against_rule(c, kF16, Layout::kDense, Layout::kDense, 7 * 0x1p-11);
    check_against_rule(c, kBF16, Layout::kDense, Layout::kDense, 7 * 0x1p-8);
  }
}

TEST_CASE("optimisers take parameters and gradients in any layout") {
  for (const Case& c : cases()) {
    for (const Layout param : {Layout::kDense, Layout::kTransposed, Layout::kSliced}) {
      for (const Layout grad : {Layout::kDense, Layout::kTransposed, Layout::kSliced}) {
        check_against_rule(c, kF64, param, grad, 1e-12);
      }
    }
  }
}

TEST_CASE("optimisers take an expanded gradient, a 0-d and a zero-size parameter") {
  const Tensor p = ones({3, 4}, {.dtype = kF64, .requires_grad = true});
  const Tensor scalar = tensor(2.0, {.dtype = kF64, .requires_grad = true});
  const Tensor none = zeros({0, 3}, {.dtype = kF64, .requires_grad = true});
  p.set_grad(expand(tensor(0.5, kF64), {3, 4}));
  scalar.set_grad(tensor(1.0, kF64));
  none.set_grad(zeros({0, 3}, {.dtype = kF64}));
  optim::SGD optimizer({p, scalar, none}, {.lr = 0.1, .momentum = 0.9});
  optimizer.step();
  CHECK(p.to_vector<double>() == std::vector<double>(12, 1 - 0.1 * 0.5));
  CHECK(scalar.item<double>() == 2.0 - 0.1);
  CHECK(optimizer.state_dict().contains("state.2.momentum_buffer"));
}

TEST_CASE("optimisers: the gradient is left alone, and a zero gradient is a normal step") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const Tensor p = filled(make(Layout::kDense, kF64), start);
    const Tensor g = filled(make(Layout::kDense, kF64), [](int64_t i) { return gradient(i, 1); });
    p.requires_grad_();
    p.set_grad(g);
    const auto before = g.to_vector<double>();
    const uint32_t version = g.version();
    const auto optimizer = c.make({p});
    optimizer->step();
    CHECK(g.to_vector<double>() == before);
    CHECK(g.version() == version);

    const Tensor zero = zeros({kRows, kColumns}, {.dtype = kF64});
    p.set_grad(zero);
    optimizer->step();
    CHECK(optimizer->state_dict().number<int64_t>("state.0.step") == 2);
  }
}

TEST_CASE("optimisers: the number of threads changes no bit") {
  const int threads = num_threads();
  for (const Case& c : cases()) {
    INFO(c.name);
    std::vector<std::vector<float>> results;
    for (const int count : {1, 3}) {
      set_num_threads(count);
      Generator generator(5);
      Tensors params, grads;
      for (const int64_t n :
           {70000, 3, 1, 40000}) {  // several chunks, several tensors in one chunk
        params.push_back(randn({n}, {.requires_grad = true}, &generator));
        params.back().set_grad(randn({n}, {}, &generator));
      }
      const auto optimizer = c.make(params);
      for (int s = 0; s < 3; ++s) optimizer->step();
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

}  // namespace
}  // namespace lathe
