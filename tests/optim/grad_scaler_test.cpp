// What loss scaling does to gradients, parameters and scale, against a state machine written out
// here, on every device there is. Order of calls, options and state: grad_scaler_state_test.cpp.
#include "lathe/optim/grad_scaler.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>

#include "../layout_copy.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;
using optim::GradScaler;

/// The first or the last element becomes `value`.
void fill_corner(const Tensor& t, bool last, double value) {
  Tensor at = t;
  while (at.ndim() > 0) at = at.select(0, last ? at.dim(0) - 1 : 0);
  at.fill_(value);
}

using Values = std::vector<std::vector<double>>;
Values values_of(const Tensors& params, const optim::Optimizer& optimizer) {
  Values out;
  for (const Tensor& p : params) out.push_back(p.to_vector<double>());
  for (const auto& [name, t] : optimizer.state_dict()) out.push_back(t.to_vector<double>());
  return out;
}

struct Maker {
  const char* name;
  std::function<std::unique_ptr<optim::Optimizer>(Tensors)> make;
};
const Maker kMakers[] = {
    {"SGD",
     [](Tensors p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1}); }},
    {"SGD with momentum",
     [](Tensors p) {
       return std::make_unique<optim::SGD>(
           p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1});
     }},
    {"Adam",
     [](Tensors p) {
       return std::make_unique<optim::Adam>(
           p, optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
     }},
    {"AdamW",
     [](Tensors p) { return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.01}); }},
    {"RMSprop",
     [](Tensors p) {
       return std::make_unique<optim::RMSprop>(
           p, optim::RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
     }},
};

/// The rules of the scale, as PyTorch documents them.
struct Machine {
  double scale, growth = 2, backoff = 0.5;
  int64_t interval, tracker = 0, steps = 0, skipped = 0;

  void update(bool overflow) {
    ++steps;
    if (overflow) {
      ++skipped;
      scale *= backoff;
      tracker = 0;
      return;
    }
    if (++tracker < interval) return;
    tracker = 0;
    if (scale * growth <= std::numeric_limits<float>::max()) scale *= growth;
  }
};

void check_scale(const GradScaler& scaler, const Machine& want) {
  CHECK(scaler.get_scale() == want.scale);
  CHECK(scaler.state_dict().number<int64_t>("growth_tracker") == want.tracker);
}

TEST_CASE(
    "GradScaler: scripted overflows give the scales, the steps and the parameters of a loop that "
    "knows") {
  // Powers of 2 scale without rounding, so that nothing may differ in a single bit.
  const std::vector<bool> script = {true,  false, false, false, false, true,  true, false,
                                    false, false, true,  false, false, false, false};
  for (const Device device : devices()) {
    for (const Maker& maker : kMakers) {
      CAPTURE(maker.name);
      Generator generator(8);
      const Tensors start = {randn({33}, {}, &generator), randn({4, 5}, {}, &generator)};
      Tensors got, want;
      for (const Tensor& t : start) {
        got.push_back(param(t, device));
        want.push_back(param(t, kCPU));
      }
      const auto scaled = maker.make(got), plain = maker.make(want);
      GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
      Machine machine{.scale = 1024, .interval = 3};
      for (const bool overflow : script) {
        for (size_t i = 0; i < got.size(); ++i) {
          const Tensor g = randn(start[i].shape(), {}, &generator);
          want[i].set_grad(g);
          // d(sum(p · g))/dp = g
          scaler.scale(sum(mul(got[i], g.to(device)))).backward();
          if (overflow && i == 1) {
            const NoGrad off;
            got[i].grad().select(0, 2).select(0, 3).fill_(-kInfinity);
          }
        }
        scaler.step(*scaled);
        if (!overflow) plain->step();
        scaler.update();
        machine.update(overflow);
        scaled->zero_grad();
        CHECK(values_of(got, *scaled) == values_of(want, *plain));
        check_scale(scaler, machine);
      }
      if (device.is_cuda()) cuda::synchronize();
      CHECK(scaler.progress().scale == machine.scale);
      CHECK(scaler.progress().skipped == machine.skipped);
      CHECK(scaler.progress().steps == machine.steps);
      CHECK(scaler.read_progress().skipped == machine.skipped);
      CHECK(scaler.read_progress().steps == machine.steps);
    }
  }
}

TEST_CASE(
    "GradScaler: inf or NaN in one of 62 gradients changes no parameter, buffer or step count") {
  for (const Device device : devices()) {
    for (const Maker& maker : kMakers) {
      for (const int steps_before : {0, 2}) {
        CAPTURE(maker.name);
        Generator generator(9);
        Tensors params;
        for (int64_t i = 0; i < 62; ++i)
          params.push_back(param(randn({1 + i % 7}, {}, &generator), device));
        const auto optimizer = maker.make(params);
        GradScaler scaler;
        begin(scaler, device);
        const auto set_grads = [&] {
          for (const Tensor& p : params) p.set_grad(randn(p.shape(), {}, &generator).to(device));
        };
        for (int s = 0; s < steps_before; ++s) {
          set_grads();
          scaler.step(*optimizer);
          scaler.update();
        }
        const Values before = values_of(params, *optimizer);
        for (const double bad : {kInfinity, kNaN}) {
          set_grads();
          params[40].grad().select(0, 0).fill_(bad);
          scaler.step(*optimizer);
          scaler.update();
          CHECK(values_of(params, *optimizer) == before);
        }
        CHECK(scaler.get_scale() == 65536.0 / 4);
        set_grads();
        scaler.step(*optimizer);
        CHECK(values_of(params, *optimizer) != before);
      }
    }
  }
}

TEST_CASE(
    "GradScaler: unscales gradients of any size and layout, and finds what is not finite anywhere "
    "in them") {
  manual_seed(10);
  constexpr double kScale = 48;  // 1/48 is rounded
  const float factor = static_cast<float>(1.0 / kScale);
  for (const Device device : devices()) {
    Tensors grads;
    for (const int64_t n : {0, 1, 31, 33, 1023, 1025, 40'000}) grads.push_back(randn({n}));
    if (!device.is_cuda()) grads.push_back(randn({(1 << 20) + 1}));
    grads.push_back(randn({5, 7}).transpose(0, 1));
    grads.push_back(randn({6, 10}).slice(1, 1, 10, 2));
    grads.push_back(randn({8193}).narrow(0, 1, 4099));
    grads.push_back(randn({1}).expand({9}));
    grads.push_back(randn({2, 3, 4, 5}).contiguous(kChannelsLast));
    grads.push_back(randn({12}, {.dtype = kF64}));
    grads.push_back(randn({}));
    const auto run = [&](size_t bad_at, bool last, double bad) {
      Tensors params;
      for (size_t i = 0; i < grads.size(); ++i) {
        const Tensor p = param(zeros(grads[i].shape(), {.dtype = grads[i].dtype()}), device);
        const bool expanded = has_overlap(grads[i]);
        p.set_grad(expanded ? grads[i].to(device).expand({9})
                            : test::layout_copy(grads[i], device));
        params.push_back(p);
        if (i != bad_at) continue;
        if (expanded) p.set_grad(p.grad().clone());
        fill_corner(p.grad(), last, bad);
      }
      optim::SGD optimizer(params, {.lr = 1});
      GradScaler scaler({.init_scale = kScale});
      begin(scaler, device);
      scaler.unscale_(optimizer);
      for (size_t i = 0; i < grads.size(); ++i) {
        if (i == bad_at) continue;
        const std::vector<double> got = params[i].grad().to_vector<double>();
        const std::vector<double> scaled = grads[i].to_vector<double>();
        bool same = true;
        for (size_t k = 0; k < got.size(); ++k) {
          const double want = grads[i].dtype() == kF64
                                  ? scaled[k] * static_cast<double>(factor)
                                  : static_cast<double>(static_cast<float>(scaled[k]) * factor);
          same = same && got[k] == want;
        }
        CHECK_MESSAGE(same, "gradient ", i, " on ", device.is_cuda());
      }
      scaler.step(optimizer);
      scaler.update();
      return scaler.get_scale() == kScale / 2;
    };
    CHECK_FALSE(run(grads.size(), false, 0));
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].numel() == 0) continue;
      CAPTURE(i);
      CHECK(run(i, false, kNaN));
      CHECK(run(i, true, i % 2 == 0 ? kInfinity : -kInfinity));
    }
  }
}

TEST_CASE("GradScaler: of two optimisers the one that overflowed is skipped, and the scale falls") {
  for (const Device device : devices()) {
    for (const bool first : {false, true}) {  // that one overflows
      CAPTURE(first);
      const Tensor p = param(ones({2}), device), q = param(ones({3}), device);
      optim::SGD one({p}, {.lr = 0.1});
      optim::Adam two({q}, {.lr = 0.1});
      GradScaler scaler({.init_scale = 8});
      begin(scaler, device);
      p.set_grad(full({2}, first ? kNaN : 1.0, {.device = device}));
      q.set_grad(full({3}, first ? 1.0 : kNaN, {.device = device}));
      scaler.step(one);
      scaler.step(two);
      scaler.update();
      CHECK((p.to_vector<float>() == std::vector<float>{1, 1}) == first);
      CHECK((q.to_vector<float>() == std::vector<float>{1, 1, 1}) != first);
      CHECK(scaler.get_scale() == 4);
    }
  }
}

TEST_CASE("GradScaler: what was scaled before update() cannot be differentiated after it") {
  for (const Device device : devices()) {
    const Tensor p = param(ones({2}), device);
    optim::SGD optimizer({p}, {.lr = 0.1});
    GradScaler scaler({.init_scale = 8});
    const Tensor loss = scaler.scale(sum(mul(p, p))), early = scaler.scale(sum(p));
    loss.backward();
    scaler.step(optimizer);
    scaler.update();  // writes the scale that `early` was multiplied by
    CHECK_THROWS_AS(early.backward(), StateError);
    scaler.scale(sum(p)).backward();
  }
}

TEST_CASE("GradScaler: clipping between unscale_ and step sees the true norm") {
  for (const Device device : devices()) {
    const Tensor p = param(zeros({2}), device);
    optim::SGD optimizer({p}, {.lr = 1});
    GradScaler scaler({.init_scale = 1024});
    begin(scaler, device);
    p.set_grad(tensor({3 * 1024.f, 4 * 1024.f}).to(device));
    scaler.unscale_(optimizer);
    CHECK(optim::clip_grad_norm_({p}, 1.0).item<float>() == 5);
    scaler.step(optimizer);
    scaler.update();
    CHECK(p.to_vector<float>()[0] == doctest::Approx(-0.6));
    CHECK(p.to_vector<float>()[1] == doctest::Approx(-0.8));
  }
}

TEST_CASE("GradScaler: a gradient of 1e-8 trains with scaling and stands still without") {
  for (const Device device : devices()) {
    for (const bool enabled : {false, true}) {
      const Tensor w = param(ones({4, 1}), device);
      const Tensor x = ones({1, 4}, {.device = device});
      optim::SGD optimizer({w}, {.lr = 1e7});
      GradScaler scaler({.enabled = enabled});
      for (int s = 0; s < 3; ++s) {
        optimizer.zero_grad();
        Tensor loss;
        {
          const Autocast half(device, kF16);
          loss = mul(cast(matmul(x, w), kF32), 1e-8);
        }
        scaler.scale(sum(loss)).backward();
        scaler.step(optimizer);
        scaler.update();
      }
      const float got = w.to_vector<float>()[2];
      // 1e-8 is below half of f16's smallest number; 6.55e-4, scaled, has 11 bits.
      CHECK(got == (enabled ? doctest::Approx(0.7).epsilon(1e-3) : doctest::Approx(1)));
    }
  }
}

TEST_CASE("GradScaler: the host never waits, and all gradients are unscaled in one launch") {
  for (const Device device : devices()) {
    if (device.is_cpu()) continue;
    Tensors params;
    for (int64_t i = 0; i < 62; ++i) params.push_back(param(ones({i + 1}), device));
    optim::Adam optimizer(params, {.lr = 0.01});
    GradScaler scaler({.growth_interval = 2});
    begin(scaler, device);
    const auto set_grads = [&](double value) {
      for (const Tensor& p : params) p.set_grad(full(p.shape(), value, {.device = device}));
    };
    const uint64_t waits = cuda::counters().synchronizations;
    for (int s = 0; s < 6; ++s) {
      set_grads(s == 2 ? kInfinity : 1);
      const uint64_t launches = cuda::counters().launches;
      scaler.unscale_(optimizer);
      CHECK(cuda::counters().launches - launches == 2);  // clears the flag; unscales and checks
      const Tensor norm = optim::clip_grad_norm_(params, 1.0);
      const uint64_t before_step = cuda::counters().launches;
      scaler.step(optimizer);
      if (s > 0) CHECK(cuda::counters().launches - before_step == 2);  // counts; updates
      scaler.update();
      scaler.progress();
    }
    CHECK(cuda::counters().synchronizations == waits);
    CHECK(optimizer.state_dict().number<int64_t>("state.61.step") == 5);
    CHECK(cuda::counters().synchronizations > waits);  // the counter counts
  }
}

TEST_CASE("GradScaler: a negative limit of the norm is refused, and nothing is updated") {
  const Tensor w = ones({2}, {.requires_grad = true});
  optim::SGD optimizer({w}, {.lr = 1});
  for (const bool enabled : {true, false}) {
    GradScaler scaler({.init_scale = 8, .enabled = enabled});
    scaler.scale(sum(w)).backward();
    CHECK_THROWS_WITH_AS(scaler.step(optimizer, {.max_grad_norm = -1}),
                         doctest::Contains("max_grad_norm must not be negative, got -1"),
                         ValueError);
  }
  CHECK(w.to_vector<double>() == std::vector<double>{1, 1});
}

}  // namespace
}  // namespace lathe
