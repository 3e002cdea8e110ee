// Parameters of all floating dtypes under one object: each moves with the bits of one that is alone.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/module.h"
#include "lathe/ops/random.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/lookahead.h"
#include "lathe/optim/optimizer_names.h"
#include "loss_scaling.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// The dtypes in turn, so that no two neighbours have the same.
Tensors mixed(Device device) {
  Generator generator(1);
  Tensors out;
  for (const Shape& shape : {Shape{3, 2}, Shape{1, 129}}) {
    for (const DType dtype : {kF64, kBF16, kF32, kF16})
      out.push_back(param(randn(shape, {.dtype = kF64}, &generator).to(dtype), device));
  }
  return out;
}

void set_grad(const Tensor& p, size_t number, int step) {
  Generator generator(100 * number + static_cast<uint64_t>(step));
  p.set_grad(randn(p.shape(), {.dtype = kF64}, &generator).to(p.dtype()).to(p.device()));
}

/// What takes one step of some parameters.
using Step = std::function<void()>;
using Make = std::function<Step(const Tensors& params)>;

void check_together_as_alone(const std::string& name, const Make& make) {
  INFO(name);
  for (const Device device : devices()) {
    const Tensors together = mixed(device), alone = mixed(device);
    const auto run = [&](const Tensors& params, size_t first) {
      const Step step = make(params);
      for (int s = 0; s < 3; ++s) {
        for (size_t i = 0; i < params.size(); ++i) set_grad(params[i], first + i, s);
        step();
      }
    };
    run(together, 0);
    for (size_t i = 0; i < alone.size(); ++i) {
      const std::vector<double> before = alone[i].to_vector<double>();
      run({alone[i]}, i);
      CAPTURE(alone[i].dtype());
      CHECK(alone[i].to_vector<double>() != before);
      CHECK(together[i].to_vector<double>() == alone[i].to_vector<double>());
    }
  }
}

struct Parameters : nn::Module {
  explicit Parameters(const Tensors& params) {
    for (const Tensor& p : params) parameter(concat("p", parameters().size()), p);
  }
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace

TEST_CASE("mixed dtypes: every optimiser") {
  for (size_t at = 0; at < optim::kOptimizerNames.size();) {
    const size_t end =
        std::min(optim::kOptimizerNames.find(", ", at), optim::kOptimizerNames.size());
    const std::string_view name = optim::kOptimizerNames.substr(at, end - at);
    at = end + 2;
    for (const bool master_weights : {false, true}) {
      check_together_as_alone(
          concat(name, ", master_weights: ", master_weights), [=](const Tensors& params) {
            return optim::with_optimizer(name, [&]<class O, class Options, class Group>() -> Step {
              const bool small = name == "lars" || name == "adadelta";  // steps at this rate
              Options options{.lr = small ? 10 : 0.1};
              options.weight_decay = 0.1;
              options.master_weights = master_weights;
              return [o = std::make_shared<O>(params, options)] { o->step(); };
            });
          });
    }
  }
}

TEST_CASE("mixed dtypes: Lookahead, EMA and clipped values") {
  check_together_as_alone("Lookahead", [](const Tensors& params) -> Step {
    const auto sgd = std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 0.5});
    const auto ahead = std::make_shared<optim::Lookahead>(*sgd, optim::LookaheadOptions{.k = 2});
    return [=] { ahead->step(), (void)sgd; };
  });
  check_together_as_alone("EMA", [](const Tensors& params) -> Step {
    const auto module = std::make_shared<Parameters>(params);
    const auto ema = std::make_shared<optim::EMA>(*module, optim::EMAOptions{.decay = 0.5});
    return [=] {
      const NoGrad off;
      for (const Tensor& p : params) p.add_(p.grad());
      ema->update();
      ema->copy_to_module();
    };
  });
  check_together_as_alone("clip_grad_value_", [](const Tensors& params) -> Step {
    return [=] {
      optim::clip_grad_value_(params, 0.25);
      optim::SGD(params, {.lr = 0.5}).step();
    };
  });
}

TEST_CASE("mixed dtypes: the norm is that of all gradients, and each is scaled by it") {
  for (const Device device : devices()) {
    const Tensors params = mixed(device);
    double squares = 0;
    Tensors before;
    for (size_t i = 0; i < params.size(); ++i) {
      set_grad(params[i], i, 0);
      before.push_back(params[i].grad().clone());
      for (const double g : before[i].to_vector<double>()) squares += g * g;
    }
    const double norm = std::sqrt(squares);
    const Tensor total = optim::clip_grad_norm_(params, 1);
    CHECK(total.dtype() == kF64);
    CHECK(total.item<double>() == doctest::Approx(norm).epsilon(1e-12));
    for (size_t i = 0; i < params.size(); ++i) {
      const DType dtype = params[i].dtype();
      CAPTURE(dtype);
      // one rounding to the dtype
      const double tolerance = dtype == kBF16 ? 0x1p-8 : dtype == kF16 ? 0x1p-11 : 0x1p-23;
      const auto want = before[i].to_vector<double>(), got = params[i].grad().to_vector<double>();
      for (size_t k = 0; k < want.size(); ++k)
        CHECK(got[k] == doctest::Approx(want[k] / (norm + 1e-6)).epsilon(tolerance));
      params[i].set_grad(before[i]);
    }
    optim::SGD sgd(params, {.lr = 0.5});
    CHECK(sgd.step({.max_grad_norm = 1}).item<double>() == total.item<double>());
  }
}
