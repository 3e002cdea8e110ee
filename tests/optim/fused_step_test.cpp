// Unscaling, the check for overflow and clipping on the way into the update, against the same done
// in memory.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"
#include "make_optimizer.h"
#include "rule_optimizers.h"

namespace lathe {
namespace {

using namespace test;
using optim::GradScaler;
using optim::Optimizer;

const std::vector<MakeOptimizer>& optimizers() {
  static const std::vector<MakeOptimizer> all = with_rule_optimizers({
      make<optim::SGD>(optim::SGDOptions{.lr = 0.1}),
      make<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
      make<optim::Adam>(optim::AdamOptions{.lr = 0.1, .amsgrad = true}),
      make<optim::AdamW>(optim::AdamWOptions{.lr = 0.1}),
      make<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.9, .centered = true}),
      make<optim::LARS>(optim::LARSOptions{.weight_decay = 0.01}),
      make<optim::LAMB>(optim::LAMBOptions{}),
      make<optim::Adafactor>(optim::AdafactorOptions{}),
      make<optim::NovoGrad>(optim::NovoGradOptions{}),
  });
  return all;
}

Tensors make_params(DType dtype, Device device) {
  Generator generator(8);
  Tensors out;
  for (const Shape& shape : {Shape{70}, Shape{}, Shape{0, 2}, Shape{9, 5}}) {
    out.push_back(param(randn(shape, {.dtype = dtype}, &generator), device));
  }
  return out;
}

/// The scaled gradients of step s; those of step 2 overflow. One is not dense, one is missing.
void set_grads(const Tensors& params, int s, double scale) {
  Generator generator(static_cast<uint64_t>(20 + s));
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    Tensor g = randn(p.shape(), {.dtype = p.dtype()}, &generator);
    g.mul_(s == 2 && i == 1 ? kInfinity : scale);
    if (i == 3) {
      const Tensor wide = zeros({9, 10}, {.dtype = p.dtype()});
      slice(wide, 1, 0, 10, 2).copy_(g);
      p.set_grad(slice(wide.to(p.device()), 1, 0, 10, 2).detach());
    } else {
      p.set_grad(i == 0 && s == 3 ? Tensor() : g.to(p.device()));
    }
  }
}

TEST_CASE("fused step: with a scaler every optimiser moves to the same bits as step by step") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF32, kF64}) {
      for (const double max_norm : {0.0, 0.5, 1e6}) {
        for (const MakeOptimizer& make_optimizer : optimizers()) {
          // An emulated GPU is slow, and its update kernels have tests of their own.
          const bool fourth = (&make_optimizer - optimizers().data()) % 4 == 3;  // AdamW, Adafactor
          if (!device.is_cpu() && !(max_norm == 0.5 && dtype == kF32 && fourth)) continue;
          const Tensors apart = make_params(dtype, device), fused = make_params(dtype, device);
          const auto first = make_optimizer(apart), second = make_optimizer(fused);
          INFO(first->name(), ", ", name_of(dtype), " on ", device, ", max_norm ", max_norm);
          GradScaler scaler({.init_scale = 1024}), other({.init_scale = 1024});
          begin(scaler, device);
          begin(other, device);
          for (int s = device.is_cpu() ? 0 : 1; s < (device.is_cpu() ? 5 : 4); ++s) {
            set_grads(apart, s, scaler.get_scale());
            set_grads(fused, s, other.get_scale());
            const auto scaled = fused[1].grad().item<double>();
            const Tensor norm = scaler.step(*first, {.max_grad_norm = max_norm});
            const Tensor same = other.step(*second, {.max_grad_norm = max_norm, .fused = true});
            CHECK(norm.defined() == (max_norm > 0));
            if (norm.defined() && s != 2) CHECK(same.item<double>() == norm.item<double>());
            CHECK(fused[1].grad().item<double>() == scaled);
            CHECK(scaler.found_inf(*first).item<float>() == (s == 2 ? 1 : 0));
            CHECK(other.found_inf(*second).item<float>() == (s == 2 ? 1 : 0));
            scaler.update();
            other.update();
          }
          CHECK(everything(fused, *second) == everything(apart, *first));
          CHECK(other.get_scale() == 512);
        }
      }
    }
  }
}

TEST_CASE("fused step: after unscale_ only the clipping is left to the update") {
  for (const Device device : devices()) {
    const Tensors apart = make_params(kF32, device), fused = make_params(kF32, device);
    optim::AdamW first(apart), second(fused);
    GradScaler scaler, other;
    begin(scaler, device);
    begin(other, device);
    set_grads(apart, 0, 65536);
    set_grads(fused, 0, 65536);
    scaler.unscale_(first);
    other.unscale_(second);
    scaler.step(first, {.max_grad_norm = 0.5});
    other.step(second, {.max_grad_norm = 0.5, .fused = true});
    CHECK(everything(fused, second) == everything(apart, first));
  }
}

TEST_CASE(
    "fused step: without a scaler it clips as clip_grad_norm_ does, and leaves gradients alone") {
  for (const Device device : devices()) {
    for (const bool enabled : {true, false}) {  // of the optimiser itself, of a disabled scaler
      const Tensors apart = make_params(kF32, device), fused = make_params(kF32, device);
      optim::SGD first(apart, {.lr = 0.1, .momentum = 0.9});
      optim::SGD second(fused, {.lr = 0.1, .momentum = 0.9});
      GradScaler off({.enabled = false});
      for (const int s : {0, 1, 3}) {
        set_grads(apart, s, 1);
        set_grads(fused, s, 1);
        const auto before = fused[3].grad().to_vector<float>();
        const Tensor norm = optim::clip_grad_norm_(apart, 0.25);
        first.step();
        const Tensor same = enabled ? second.step({.max_grad_norm = 0.25})
                                    : off.step(second, {.max_grad_norm = 0.25, .fused = true});
        CHECK(same.item<float>() == norm.item<float>());
        CHECK(fused[3].grad().to_vector<float>() == before);
      }
      CHECK(everything(fused, second) == everything(apart, first));
    }
  }
}

TEST_CASE(
    "fused step: unscale, check, clip and update are three launches, and the host never waits") {
  for (const Device device : devices()) {
    if (device.is_cpu()) continue;
    Tensors params;
    for (int64_t i = 0; i < 62; ++i) params.push_back(param(ones({i + 1}), device));
    const auto launches_of = [&](Optimizer& optimizer) {
      GradScaler scaler;
      begin(scaler, device);
      uint64_t launches = 0;
      for (int s = 0; s < 3; ++s) {
        for (const Tensor& p : params) p.set_grad(full(p.shape(), 0.5, {.device = device}));
        const cuda::Counters before = cuda::counters();
        scaler.step(optimizer, {.max_grad_norm = 1, .fused = true});
        launches = cuda::counters().launches - before.launches;  // the first step makes state
        CHECK(cuda::counters().synchronizations == before.synchronizations);
        scaler.update();
      }
      return launches;
    };
    optim::SGD sgd(params, {.lr = 0.1, .momentum = 0.9});
    optim::Adam adam(params);
    optim::AdamW adamw(params);
    CHECK(launches_of(sgd) == 3);  // the norm's parts; norm, factors, flag and counts; the update
    CHECK(launches_of(adam) == 3);
    CHECK(launches_of(adamw) == 3);
    optim::LARS lars(params);
    CHECK(launches_of(lars) == 4);  // the update is norms and steps
    optim::LAMB lamb(params);
    CHECK(launches_of(lamb) == 4);
    optim::NovoGrad novograd(params);
    CHECK(launches_of(novograd) == 5);  // norms, rates, steps
    const auto half = static_cast<std::ptrdiff_t>(31);
    optim::SGD groups({{.params = Tensors(params.begin(), params.begin() + half)},
                       {.params = Tensors(params.begin() + half, params.end()), .lr = 0.2}},
                      {.lr = 0.1, .momentum = 0.9});
    CHECK(launches_of(groups) == 4);  // for both groups together
  }
}

TEST_CASE("fused step: wrong options and wrong order are refused, and nothing moves") {
  const Tensors params = make_params(kF32, kCPU);
  optim::SGD optimizer(params, {.lr = 0.1});
  set_grads(params, 0, 1);
  const auto before = everything(params, optimizer);
  CHECK_THROWS_WITH_AS(optimizer.step({.grad_scale = ones({})}),
                       doctest::Contains("grad_scale needs found_inf"), ValueError);
  CHECK_THROWS_WITH_AS(optimizer.step({.max_grad_norm = -1}),
                       doctest::Contains("must not be negative, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(optimizer.step({.found_inf = ones({}), .grad_scale = ones({2})}),
                       doctest::Contains("grad_scale: f32[2]"), ValueError);
  GradScaler scaler;
  CHECK_THROWS_WITH_AS(scaler.step(optimizer, {.fused = true}),
                       doctest::Contains("step(SGD) before the first scale(loss)"),
                       StateError);  // before scale()
  begin(scaler, kCPU);
  CHECK_THROWS_WITH_AS(scaler.found_inf(optimizer), doctest::Contains("found_inf(SGD) in step 1"),
                       StateError);
  CHECK(everything(params, optimizer) == before);
  scaler.step(optimizer, {.fused = true});
  CHECK_THROWS_WITH_AS(scaler.step(optimizer, {.fused = true}),
                       doctest::Contains("a second time in step 1"), StateError);  // a second time
  scaler.update();
  const Tensors half = {param(ones({3}, {.dtype = kF16}), kCPU)};
  optim::SGD narrow(half, {.lr = 0.1});
  half[0].set_grad(ones({3}, {.dtype = kF16}));
  CHECK_THROWS_WITH_AS(scaler.step(narrow, {.fused = true}),
                       doctest::Contains("parameter 0 of SGD is f16"), DTypeError);
}

}  // namespace
}  // namespace lathe
