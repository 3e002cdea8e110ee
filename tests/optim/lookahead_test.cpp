// Lookahead: its formula, its count, its state.
#include "lathe/optim/lookahead.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"
#include "make_optimizer.h"

namespace lathe {
namespace {

using namespace test;
using optim::Lookahead;
using optim::SGD;

TEST_CASE("Lookahead: every k-th step goes back towards the slow weights, in every dtype") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kBF16}) {
      const Tensor p = param(full({70}, 1, {.dtype = dtype}), device);
      const Tensor q = param(full({3}, 1, {.dtype = kF64}), device);
      SGD fast({p, q}, {.lr = 0.5});
      Lookahead optimizer(fast, {.k = 3, .alpha = 0.25});
      double weight = 1, slow = 1;
      for (int s = 1; s <= 7; ++s) {
        for (const Tensor& t : {p, q})
          t.set_grad(
              full(t.shape(), s % 2 == 0 ? 0.5 : -1.0, {.dtype = t.dtype(), .device = device}));
        const uint32_t version = p.version();
        optimizer.step();
        weight -= 0.5 * (s % 2 == 0 ? 0.5 : -1.0);
        if (s % 3 == 0) weight = slow += 0.25 * (weight - slow);
        CHECK(p.version() == version + (s % 3 == 0 ? 2 : 1));
        CAPTURE(s);
        for (const double x : p.to_vector<double>())
          CHECK(x == doctest::Approx(weight).epsilon(dtype == kBF16 ? 0x1p-6 : 1e-6));
        CHECK(q.to_vector<double>() == std::vector<double>(3, weight));
      }
      CHECK(optimizer.state_dict().at("slow.1").to_vector<double>() ==
            std::vector<double>(3, slow));
    }
  }
}

/// One step with the gradient g on every element; an infinite one is to be skipped.
using ScaledStep = void (*)(Lookahead& optimizer, optim::GradScaler& scaler, const Tensor& g);

TEST_CASE("Lookahead: a step that is skipped does not count") {
  const std::pair<const char*, ScaledStep> ways[] = {
      {"scaler",
       [](Lookahead& o, optim::GradScaler& scaler, const Tensor& g) {
         o.optimizer().params()[0].set_grad(g * scaler.get_scale());
         o.step(scaler);
         scaler.update();
       }},
      {"fused",
       [](Lookahead& o, optim::GradScaler& scaler, const Tensor& g) {
         o.optimizer().params()[0].set_grad(g * scaler.get_scale());
         o.step(scaler, {.fused = true});
         scaler.update();
       }},
      {"flag",
       [](Lookahead& o, optim::GradScaler&, const Tensor& g) {
         o.optimizer().params()[0].set_grad(g);
         o.step({.found_inf = cast(any(isinf(g)), kF32)});
       }},
  };
  for (const Device device : devices()) {
    for (const auto& [name, step] : ways) {
      CAPTURE(concat(name, " on ", device));
      const Tensor p = param(ones({5}), device);
      SGD fast({p}, {.lr = 0.5});
      auto optimizer =
          std::make_unique<Lookahead>(fast, optim::LookaheadOptions{.k = 2, .alpha = 0.25});
      optim::GradScaler scaler({.init_scale = 4});
      begin(scaler, device);
      double weight = 1, slow = 1;
      int64_t count = 0;
      for (int s = 1; s <= 9; ++s) {
        const bool skipped = s == 2 || s == 5 || s == 6;
        const double g = skipped ? kInfinity : s % 2 == 0 ? 0.5 : -1.0;
        step(*optimizer, scaler, full({5}, g, {.device = device}));
        if (!skipped) {
          weight -= 0.5 * g;
          if (++count % 2 == 0) weight = slow += 0.25 * (weight - slow);
        }
        CAPTURE(s);
        for (const double x : p.to_vector<double>()) CHECK(x == doctest::Approx(weight));
        const StateDict state = optimizer->state_dict();
        CHECK(state.count("steps") == count);
        if (s != 7) continue;  // goes on in another one, in the middle of a round
        const StateDict saved = state;
        optimizer =
            std::make_unique<Lookahead>(fast, optim::LookaheadOptions{.k = 2, .alpha = 0.25});
        optimizer->load_state_dict(saved);
      }
      CHECK(count == 6);
    }
  }
}

/// A step with the gradient `g`, made in memory of its own.
void step_by(Lookahead& optimizer, optim::GradScaler* scaler, const Tensor& g) {
  optimizer.optimizer().params()[0].set_grad(g.clone());
  if (scaler == nullptr) {
    optimizer.step();
  } else {
    optimizer.step(*scaler);
    scaler->update();
  }
}

TEST_CASE("Lookahead: each launch of a captured step counts" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  for (const bool scaled : {false, true}) {
    CAPTURE(scaled);
    const Tensor p = param(ones({5}), device), g = ones({5}, {.device = device});
    SGD fast({p}, {.lr = 0.5});
    fast.set_capturable();
    p.set_grad(g.clone());
    fast.step();  // makes the optimiser's state
    Lookahead optimizer(fast, {.k = 3, .alpha = 0.25});
    optimizer.set_capturable();
    optim::GradScaler scaler({.init_scale = 1});
    begin(scaler, device);
    cuda::Graph graph(device);
    graph.capture([&] { step_by(optimizer, scaled ? &scaler : nullptr, g); });
    double weight = 0.5, slow = 0.5;
    int64_t count = 0;
    for (int s = 1; s <= 8; ++s) {
      const bool skipped = scaled && s == 2;
      fill_values(g, skipped ? kInfinity : 1.0);
      if (s == 6) {
        step_by(optimizer, scaled ? &scaler : nullptr, g);  // between launches
      } else {
        graph.launch();
      }
      if (!skipped) {
        const double scale = scaled && s > 2 ? 0.5 : 1;  // the overflow has halved it
        weight -= 0.5 / scale;
        if (++count % 3 == 0) weight = slow += 0.25 * (weight - slow);
      }
      CAPTURE(s);
      for (const double x : p.to_vector<double>()) CHECK(x == doctest::Approx(weight));
      CHECK(optimizer.state_dict().count("steps") == count);
    }
    CHECK(slow != 0.5);
    optimizer.load_state_dict(optimizer.state_dict());  // the count stays on the GPU
    cuda::Graph(device).capture([&] { step_by(optimizer, scaled ? &scaler : nullptr, g); });
    CHECK(optimizer.state_dict().count("steps") == count);
  }
}

TEST_CASE("Lookahead: a capture does not begin the count of steps" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const Tensor p = param(ones({5}), device), g = ones({5}, {.device = device});
  SGD fast({p}, {.lr = 0.5});
  fast.set_capturable();
  p.set_grad(g.clone());
  fast.step();
  Lookahead optimizer(fast, {.k = 2});
  optim::GradScaler scaler({.init_scale = 1});
  begin(scaler, device);
  CHECK_THROWS_WITH_AS(cuda::Graph(device).capture([&] { step_by(optimizer, &scaler, g); }),
                       doctest::Contains("call set_capturable() before the capture"), StateError);
  CHECK_THROWS_AS(cuda::Graph(device).capture([&] { optimizer.set_capturable(); }), StateError);
  CHECK(p.to_vector<float>() == std::vector<float>(5, 0.5));
  CHECK(optimizer.state_dict().count("steps") == 0);
}

TEST_CASE("Lookahead: a flag on a GPU needs all parameters there" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const Tensor there = param(ones({3}), kCPU), here = param(ones({3}), device);
  SGD fast({{.params = {there}}, {.params = {here}}}, {.lr = 0.5});
  Lookahead optimizer(fast, {.k = 2});
  here.set_grad(ones({3}, {.device = device}));
  CHECK_THROWS_WITH_AS(optimizer.step({.found_inf = zeros({}, {.device = device})}),
                       doctest::Contains("found_inf is on another device than parameter 0"),
                       DeviceError);
  optim::GradScaler scaler({.init_scale = 1});
  begin(scaler, device);
  CHECK_THROWS_AS(optimizer.step(scaler), DeviceError);
  CHECK_THROWS_WITH_AS(optimizer.set_capturable(), doctest::Contains("parameter 1 is on cuda:0"),
                       DeviceError);
  CHECK(here.to_vector<float>() == std::vector<float>(3, 1));
  CHECK(optimizer.state_dict().count("steps") == 0);
  optimizer.step();
  CHECK(here.to_vector<float>() == std::vector<float>(3, 0.5));
}

TEST_CASE("Lookahead: wrong options and states are refused, and nothing changes") {
  const Tensor p = param(ones({3}), kCPU);
  SGD sgd({p}, {.lr = 1});
  CHECK_THROWS_WITH_AS(Lookahead(sgd, {.k = 0}), doctest::Contains("k must be at least 1, got 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Lookahead(sgd, {.alpha = 1.5}), doctest::Contains("in [0,1], got 1.5"),
                       ValueError);
  const Tensor gaps = slice(ones({6}), 0, 0, 6, 2).detach().requires_grad_();
  SGD other({gaps});
  CHECK_THROWS_WITH_AS(Lookahead{other}, doctest::Contains("has gaps"), ValueError);

  Lookahead optimizer(sgd, {.k = 2});
  const Tensor half = param(ones({3}, {.dtype = kBF16}), kCPU);
  SGD in_f32({half}, {.lr = 1, .master_weights = true});
  CHECK_THROWS_WITH_AS(Lookahead(in_f32, {}), doctest::Contains("master_weights"), ValueError);
  const Tensor wide = param(ones({3}), kCPU);
  SGD plain({wide}, {.lr = 1});
  Lookahead ahead(plain, {.k = 1});
  wide.set_data(ones({3}, {.dtype = kF64}));
  wide.set_grad(ones({3}, {.dtype = kF64}));
  CHECK_THROWS_WITH_AS(ahead.step(), doctest::Contains("no longer fits"), StateError);
  CHECK(wide.to_vector<double>() == std::vector<double>(3, 1));

  p.set_grad(ones({3}));
  optimizer.step();
  p.set_data(ones({4}));
  p.set_grad(ones({4}));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("parameter 0 no longer fits"),
                       StateError);
  CHECK(p.to_vector<float>() == std::vector<float>(4, 1));
}

}  // namespace
}  // namespace lathe
