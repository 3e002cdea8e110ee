// GradScaler's order of calls, options, floor and state; what it does to gradients is in
// grad_scaler_test.cpp.
#include "lathe/optim/grad_scaler.h"

#include <doctest/doctest.h>

#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/reduce.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;
using optim::GradScaler;
using optim::GradScalerOptions;

TEST_CASE("GradScaler: every wrong order of calls is a StateError that changes nothing") {
  for (const Device device : devices()) {
    const Tensor p = param(ones({3}), device), q = param(ones({2}), device);
    optim::SGD optimizer({p}, {.lr = 0.1}), other({q}, {.lr = 0.1});
    GradScaler scaler;
    const auto expect = [&](auto call, const char* text) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), StateError);
    };
    p.set_grad(ones({3}, {.device = device}));
    expect([&] { scaler.unscale_(optimizer); }, "unscale_(SGD) before the first scale(loss)");
    expect([&] { scaler.step(optimizer); }, "before the first scale(loss)");
    expect([&] { scaler.update(); }, "update() in step 1 with no gradients checked");
    begin(scaler, device);
    expect([&] { scaler.update(); }, "update() in step 1 with no gradients checked");
    expect([&] { scaler.step(other); }, "none of its 1 parameters has a gradient");
    expect([&] { scaler.update(); }, "(0 optimisers unscaled)");
    scaler.unscale_(other);
    expect([&] { scaler.update(); }, "(1 optimisers unscaled)");
    scaler.unscale_(optimizer);
    expect([&] { scaler.unscale_(optimizer); }, "unscale_(SGD) a second time in step 1");
    expect([&] { scaler.load_state_dict(scaler.state_dict()); }, "load_state_dict() in step 1");
    CHECK(p.grad().to_vector<float>() == std::vector<float>(3, 1 / 65536.0f));
    scaler.step(optimizer);
    const std::vector<float> after = p.to_vector<float>();
    expect([&] { scaler.step(optimizer); }, "step(SGD) a second time in step 1");
    expect([&] { scaler.unscale_(optimizer); }, "unscale_(SGD) after step(), in step 1");
    CHECK(p.to_vector<float>() == after);
    scaler.update();
    expect([&] { scaler.update(); }, "update() in step 2");
    CHECK(scaler.get_scale() == 65536);
  }
}

TEST_CASE("GradScaler: an optimiser that had no gradients is stepped when it has") {
  for (const Device device : devices()) {
    for (const bool unscaled : {false, true}) {
      const Tensor p = param(ones({3}), device);
      optim::SGD optimizer({p}, {.lr = 0.5});
      GradScaler scaler;
      begin(scaler, device);
      if (unscaled) {
        scaler.unscale_(optimizer);
        CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("update() in step 1"), StateError);
      } else {
        CHECK_THROWS_WITH_AS(scaler.step(optimizer),
                             doctest::Contains("none of its 1 parameters has a gradient"),
                             StateError);
      }
      scaler.load_state_dict(scaler.state_dict().clone());
      p.set_grad(full({3}, 65536.0, {.device = device}));
      scaler.step(optimizer);
      scaler.update();
      CHECK(p.to_vector<float>() == std::vector<float>(3, 0.5f));
    }
  }
}

TEST_CASE("GradScaler: half gradients, other devices and bad options are refused") {
  const Tensor half = param(ones({3}, {.dtype = kF16}), kCPU), p = param(ones({2}), kCPU);
  optim::SGD optimizer({p, half}, {.lr = 0.1});
  p.set_grad(ones({2}));
  half.set_grad(ones({3}, {.dtype = kF16}));
  GradScaler scaler;
  begin(scaler, kCPU);
  CHECK_THROWS_WITH_AS(scaler.unscale_(optimizer),
                       doctest::Contains("the gradient of parameter 1 of SGD is f16"), DTypeError);
  CHECK_THROWS_WITH_AS(scaler.step(optimizer), doctest::Contains("parameter 1 of SGD is f16"),
                       DTypeError);
  CHECK(p.grad().to_vector<float>() == std::vector<float>{1, 1});
  CHECK_THROWS_WITH_AS(scaler.scale(zeros({}, {.dtype = kI64})),
                       doctest::Contains("the loss is not floating (i64[]"), DTypeError);
  for (const Device device : devices()) {
    if (device.is_cpu()) continue;
    const Tensor there = param(ones({2}), device);
    there.set_grad(ones({2}, {.device = device}));
    optim::SGD elsewhere({there}, {.lr = 0.1});
    CHECK_THROWS_WITH_AS(scaler.unscale_(elsewhere),
                         doctest::Contains("parameter 0 of SGD is on another device"), DeviceError);
    CHECK_THROWS_WITH_AS(scaler.scale(zeros({}, {.device = device})),
                         doctest::Contains("the loss is on another device"), DeviceError);
    CHECK_THROWS_WITH_AS(elsewhere.step({.found_inf = zeros({})}),
                         doctest::Contains("found_inf is on another device"), DeviceError);
  }
  CHECK_THROWS_WITH_AS(optimizer.step({.found_inf = zeros({1})}),
                       doctest::Contains("found_inf: f32[1]"), ValueError);
  CHECK_THROWS_WITH_AS(optimizer.step({.found_inf = zeros({}, {.dtype = kF64})}),
                       doctest::Contains("found_inf: f64[]"), ValueError);

  const auto refused = [](const GradScalerOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(GradScaler{options}, doctest::Contains(text), ValueError);
  };
  refused({.init_scale = 0}, "the scale must be finite in f32 and not below min_scale");
  refused({.init_scale = 1e39}, "got 1e+39");
  refused({.init_scale = kNaN}, "got nan");
  refused({.growth_factor = 1}, "growth_factor must be finite and above 1, got 1");
  refused({.growth_factor = kInfinity}, "growth_factor");
  refused({.backoff_factor = 1}, "backoff_factor must be between 0 and 1, got 1");
  refused({.backoff_factor = kNaN}, "backoff_factor");
  refused({.growth_interval = 0}, "growth_interval must be at least 1, got 0");
  refused({.min_scale = 0}, "min_scale must be finite and positive, got 0");
  refused({.init_scale = 1, .min_scale = 2}, "not below min_scale (2), got 1");
}

/// One step with a gradient of ones or of inf.
void step(GradScaler& scaler, optim::Optimizer& optimizer, bool overflow) {
  for (const Tensor& p : optimizer.params()) {
    p.set_grad(full(p.shape(), overflow ? kInfinity : 1.0, {.device = p.device()}));
  }
  scaler.step(optimizer);
  scaler.update();
}

TEST_CASE("GradScaler: the scale grows only to finite values") {
  for (const Device device : devices()) {
    optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 0x1p126, .growth_interval = 1});
    begin(scaler, device);
    for (const double want : {0x1p127, 0x1p127, 0x1p127}) {
      step(scaler, optimizer, false);
      CHECK(scaler.get_scale() == want);
      CHECK(scaler.state_dict().number<int64_t>("growth_tracker") == 0);
    }
  }
}

TEST_CASE(
    "GradScaler: a scale that falls below the floor is an error that names the step and the "
    "skips") {
  for (const Device device : devices()) {
    optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 0x1p-12});
    begin(scaler, device);
    step(scaler, optimizer, false);
    for (int s = 0; s < 2; ++s) step(scaler, optimizer, true);
    CHECK(scaler.get_scale() == 0x1p-14);  // the floor itself is allowed
    step(scaler, optimizer, true);         // step 4
    CHECK(scaler.get_scale() == 0x1p-14);
    if (device.is_cuda()) cuda::synchronize();
    CHECK_THROWS_WITH_AS(step(scaler, optimizer, false),
                         doctest::Contains("in step 4 the loss scale would have fallen"),
                         optim::LossScaleError);
    CHECK_THROWS_WITH_AS(scaler.update(), doctest::Contains("3 of 4 steps were skipped"),
                         StateError);
    CHECK(scaler.progress().skipped == 3);
    scaler.load_state_dict(GradScaler().state_dict());
    step(scaler, optimizer, false);
    CHECK(scaler.get_scale() == 65536);
  }
}

TEST_CASE("GradScaler: a fixed scale stays, and overflows are skipped still") {
  for (const Device device : devices()) {
    const Tensor p = param(ones({2}), device);
    optim::SGD optimizer({p}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 128, .growth_interval = 1, .dynamic = false});
    begin(scaler, device);
    step(scaler, optimizer, true);
    CHECK(p.to_vector<float>() == std::vector<float>{1, 1});
    step(scaler, optimizer, false);
    CHECK(p.to_vector<float>() != std::vector<float>{1, 1});
    CHECK(scaler.get_scale() == 128);
    if (device.is_cuda()) cuda::synchronize();
    CHECK(scaler.progress().skipped == 1);
  }
}

TEST_CASE("GradScaler: its state goes on where it was, on the CPU and on a GPU") {
  for (const Device device : devices()) {
    optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
    GradScaler first({.init_scale = 512, .growth_factor = 4, .growth_interval = 3});
    begin(first, device);
    for (const bool overflow : {true, false, false}) step(first, optimizer, overflow);
    const StateDict state = first.state_dict().clone();
    CHECK(state.size() == 5);
    CHECK(state.number<double>("scale") == 256);
    CHECK(state.number<int64_t>("growth_tracker") == 2);
    for (const bool started : {false, true}) {
      GradScaler second;
      if (started) begin(second, device);
      second.load_state_dict(state);
      begin(second, device);
      CHECK(second.get_scale() == 256);
      CHECK(second.progress().scale == 256);
      CHECK(second.options().growth_interval == 3);
      step(second, optimizer, false);
      CHECK(second.get_scale() == 1024);
    }
  }
}

TEST_CASE("GradScaler: a state for which there is no memory changes nothing") {
  for (const Device device : devices()) {
    const StateDict state = GradScaler({.init_scale = 4, .growth_interval = 7}).state_dict();
    FaultPoint& memory =
        device.is_cpu() ? host_allocator().fault() : cuda::allocation_fault(device);
    bool loaded = false;
    for (int n = 1; !loaded; ++n) {
      REQUIRE(n < 20);
      CAPTURE(n);
      optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
      GradScaler scaler({.init_scale = 512, .growth_interval = 3});
      begin(scaler, device);
      step(scaler, optimizer, false);
      try {
        const ArmedFault fault(memory, n);
        scaler.load_state_dict(state);
        loaded = true;
      } catch (const OutOfMemoryError&) {
      }
      CHECK(scaler.get_scale() == (loaded ? 4 : 512));
      CHECK(scaler.options().growth_interval == (loaded ? 7 : 3));
      CHECK(scaler.state_dict().number<int64_t>("growth_tracker") == (loaded ? 0 : 1));
      step(scaler, optimizer, false);
      if (device.is_cuda()) cuda::synchronize();
      CHECK(scaler.progress().scale == (loaded ? 4 : 512));
      CHECK(scaler.progress().steps == (loaded ? 1 : 2));
    }
  }
}

TEST_CASE("GradScaler: disabled, everything passes through") {
  const Tensor p = param(ones({2}), kCPU);
  optim::SGD optimizer({p}, {.lr = 0.5});
  GradScaler scaler({.enabled = false});
  const Tensor loss = sum(p);
  CHECK(scaler.scale(loss).is_same(loss));
  p.set_grad(ones({2}));
  scaler.unscale_(optimizer);
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  scaler.update();
  CHECK(p.to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.state_dict().empty());
  scaler.load_state_dict({});
}

TEST_CASE(
    "optimizer: step counts kept on the device go on after plain steps, a reload and a move") {
  for (const Device device : devices()) {
    const Tensor p = param(ones({3}), device), q = param(ones({2}), device);
    optim::Adam optimizer({p, q}, {.lr = 0.1});
    const Tensor ok = zeros({}, {.device = device}), bad = ones({}, {.device = device});
    const auto step = [&](const Tensor& flag, bool both) {
      p.set_grad(ones({3}, {.device = p.device()}));
      q.set_grad(both ? ones({2}, {.device = q.device()}) : Tensor());
      optimizer.step({.found_inf = flag});
    };
    step({}, false);
    step(ok, true);
    step(bad, true);
    step({}, true);
    StateDict state = optimizer.state_dict().clone();
    CHECK(state.number<int64_t>("state.0.step") == 3);
    CHECK(state.number<int64_t>("state.1.step") == 2);
    optimizer.load_state_dict(state);
    step(ok, false);
    step(bad, true);
    state = optimizer.state_dict();
    CHECK(state.number<int64_t>("state.0.step") == 4);
    CHECK(state.number<int64_t>("state.1.step") == 2);
  }
}

}  // namespace
}  // namespace lathe
