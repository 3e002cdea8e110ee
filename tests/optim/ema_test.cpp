// EMA: the formula, what happens to buffers, skipped steps, states, and the way back.
#include "lathe/optim/ema.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../cuda_case.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;
using optim::EMA;

void set_weights(nn::Module& model, double value) {
  const NoGrad off;
  for (const Tensor& p : model.parameters()) p.fill_(value);
}

TEST_CASE("EMA: averages follow their formula, with and without warm-up, in every dtype") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF32, kF64, kBF16}) {
      for (const bool warm_up : {false, true}) {
        nn::Linear model(3, 2);
        model.to(dtype).to(device);
        set_weights(model, 1);
        EMA ema(model, {.decay = 0.9, .warm_up = warm_up});
        double want = 1;
        const int updates = device.is_cpu() ? 200 : 3;  // the warm-up ends with the 80th
        for (int n = 1; n <= updates; ++n) {
          const double value = 2 + n % 3, early = (1.0 + n) / (10.0 + n);
          set_weights(model, value);
          ema.update();
          const double decay = warm_up && early < 0.9 ? early : 0.9;
          want = decay * want + (1 - decay) * value;
          if (n > 2 && n != updates) continue;
          for (const char* name : {"average.weight", "average.bias"}) {
            const Tensor average = ema.state_dict().at(name);
            CHECK(average.dtype() == (dtype == kF64 ? kF64 : kF32));
            for (const double x : average.to_vector<double>()) {
              CHECK(x == doctest::Approx(want).epsilon(dtype == kF64 ? 1e-13 : 1e-6));
            }
          }
        }
        CHECK(ema.num_updates() == updates);
      }
    }
  }
}

TEST_CASE("EMA: averages of half weights move by less than a half holds") {
  nn::Linear model(2, 2);
  model.to(kBF16);
  set_weights(model, 1);
  EMA ema(model, {.decay = 0.999});
  set_weights(model, 2);
  ema.update();
  CHECK(ema.state_dict().at("average.bias").to_vector<float>()[0] == doctest::Approx(1.001));
  CHECK(ema.module_state().at("bias").dtype() == kBF16);
}

TEST_CASE(
    "EMA: the model has the averages for a scope, and then its own bits and optimiser again") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF32, kBF16}) {
      nn::Linear model(3, 2);
      model.to(dtype).to(device);
      set_weights(model, 3);
      EMA ema(model, {.decay = 0.5});
      Generator generator(2);
      const NoGrad off;
      for (const Tensor& p : model.parameters()) {
        p.copy_(randn(p.shape(), {}, &generator));
      }
      const auto own = model.weight.to_vector<float>();
      optim::SGD optimizer(model.parameters(), {.lr = 1});
      {
        const EMA::Applied averaged(ema);
        for (const float x : model.weight.to_vector<float>()) CHECK(x == 3);
        CHECK_THROWS_WITH_AS(ema.update(), doctest::Contains("while the averages are applied"),
                             StateError);
        CHECK_THROWS_WITH_AS(EMA::Applied{ema},
                             doctest::Contains("the averages are applied already"), StateError);
        CHECK_THROWS_WITH_AS(ema.load_state_dict({}),
                             doctest::Contains("load_state_dict() while the averages are applied"),
                             StateError);
      }
      CHECK(model.weight.to_vector<float>() == own);
      model.weight.set_grad(ones({2, 3}, {.dtype = dtype, .device = device}));
      optimizer.step();  // reaches the model's weights, not the averages
      CHECK(model.weight.to_vector<float>() != own);
      CHECK(ema.module_state().at("weight").to_vector<float>()[0] == 3);
      {
        const EMA::Applied again(ema);
        CHECK(model.weight.to_vector<float>()[0] == 3);
      }
      ema.update();
    }
  }
}

TEST_CASE("EMA: where one weight cannot take its average none does") {
  const NoGrad off;
  struct Holder : nn::Module {
    Holder(const Tensor& whole, const Tensor& view) {
      parameter("whole", whole);
      parameter("view", view);
    }
  };
  Holder holder(ones({2}), ones({4}).narrow(0, 0, 2));
  EMA ema(holder, {.decay = 0.5});
  holder.parameters()[0].fill_(3);
  CHECK_THROWS_AS(EMA::Applied{ema}, StateError);
  CHECK(holder.parameters()[0].to_vector<float>() == std::vector<float>{3, 3});
  ema.update();
  CHECK(ema.module_state().at("whole").to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("EMA: buffers stay the model's, or are averaged on request") {
  for (const bool average : {false, true}) {
    nn::BatchNorm1d model(2);
    EMA ema(model, {.decay = 0.5, .average_buffers = average});
    {
      const NoGrad off;
      model.running_mean.fill_(8);
      model.num_batches_tracked.fill_(5);
    }
    ema.update();
    const StateDict state = ema.module_state();
    CHECK(state.at("running_mean").to_vector<float>()[0] == (average ? 4 : 8));
    CHECK(state.at("num_batches_tracked").item<int64_t>() == 5);
    CHECK(state.size() == model.state_dict().size());
    const EMA::Applied averaged(ema);
    CHECK(model.running_mean.to_vector<float>()[0] == (average ? 4 : 8));
  }
}

TEST_CASE("EMA: a skipped step changes nothing and is not counted, and the host does not wait") {
  for (const Device device : devices()) {
    nn::Linear model(3, 2);
    model.to(device);
    set_weights(model, 1);
    EMA ema(model, {.decay = 0.9, .warm_up = true});
    optim::SGD optimizer(model.parameters(), {.lr = 1});
    optim::GradScaler scaler({.init_scale = 1, .dynamic = false});
    begin(scaler, device);
    ema.update();  // one that the host counts
    double want = 1, weight = 1;
    int n = 1;
    for (const bool overflow : {true, false, true, false}) {
      for (const Tensor& p : model.parameters()) {
        p.set_grad(full(p.shape(), overflow ? kInfinity : 1.0, {.device = device}));
      }
      const cuda::Counters before = cuda::counters();
      scaler.step(optimizer);
      ema.update({.found_inf = scaler.found_inf(optimizer)});
      CHECK(cuda::counters().synchronizations == before.synchronizations);
      scaler.update();
      if (overflow) continue;
      weight -= 1;
      ++n;
      const double decay = std::min(0.9, (1.0 + n) / (10.0 + n));
      want = decay * want + (1 - decay) * weight;
    }
    CHECK(ema.num_updates() == 3);
    CHECK(ema.module_state().at("bias").to_vector<float>()[0] == doctest::Approx(want));
  }
}

// The weight is what `x` holds when a launch runs. The other model's EMA runs kernel by kernel.
TEST_CASE("EMA: each launch of a captured update counts" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  for (const optim::EMAOptions& options :
       {optim::EMAOptions{.decay = 0.9, .warm_up = true}, optim::EMAOptions{.swa = true}}) {
    for (const bool flagged : {false, true}) {
      CAPTURE(options.swa);
      CAPTURE(flagged);
      nn::Linear eager(3, 2), captured(3, 2);
      for (nn::Linear* model : {&eager, &captured}) {
        model->to(device);
        set_weights(*model, 1);
      }
      EMA want(eager, options), ema(captured, options);
      const Tensor x = ones({}, {.device = device}), flag = zeros({}, {.device = device});
      const optim::StepOptions skip{.found_inf = flagged ? flag : Tensor()};
      const auto update = [&](EMA& of, nn::Linear& model) {
        const NoGrad off;
        for (const Tensor& p : model.parameters()) p.copy_(x.expand(p.shape()));
        of.update(skip);
      };
      ema.set_capturable();
      cuda::Graph graph(device);
      graph.capture([&] { update(ema, captured); });
      for (int n = 1; n <= 6; ++n) {
        CAPTURE(n);
        fill_values(x, 1 + n % 3);
        fill_values(flag, n == 3 ? 1 : 0);
        update(want, eager);
        if (n == 5) {
          update(ema, captured);  // between launches
        } else {
          graph.launch();
        }
        CHECK(ema.num_updates() == (flagged && n >= 3 ? n - 1 : n));
        CHECK(ema.num_updates() == want.num_updates());
        for (const char* name : {"weight", "bias"}) {
          CHECK(ema.module_state().at(name).to_vector<float>() ==
                want.module_state().at(name).to_vector<float>());
        }
      }
      ema.load_state_dict(ema.state_dict());  // the count stays on the GPU
      cuda::Graph(device).capture([&] { update(ema, captured); });
      CHECK(ema.num_updates() == want.num_updates());
    }
  }
}

TEST_CASE("EMA: a capture does not begin the count of updates" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  nn::Linear model(3, 2);
  model.to(device);
  EMA ema(model, {.decay = 0.9});
  for (const Tensor& flag : {Tensor(), zeros({}, {.device = device})}) {
    CHECK_THROWS_WITH_AS(cuda::Graph(device).capture([&] { ema.update({.found_inf = flag}); }),
                         doctest::Contains("EMA: a capture cannot begin the count of updates"),
                         StateError);
  }
  CHECK_THROWS_AS(cuda::Graph(device).capture([&] { ema.set_capturable(); }), StateError);
  CHECK(ema.num_updates() == 0);
}

TEST_CASE("EMA: a flag on the CPU decides for weights on a GPU, not the other way round" *
          cuda_case()) {
  const Device device(DeviceType::kCUDA);
  nn::Linear here(3, 2), there(3, 2);
  here.to(device);
  EMA ema(here), other(there);
  ema.update({.found_inf = ones({})});
  CHECK(ema.num_updates() == 0);
  ema.update({.found_inf = zeros({})});
  CHECK(ema.num_updates() == 1);
  CHECK_THROWS_WITH_AS(other.update({.found_inf = zeros({}, {.device = device})}),
                       doctest::Contains("EMA: found_inf is on another device than weight"),
                       DeviceError);
}

TEST_CASE("EMA: an update counts as a write to each average") {
  for (const Device device : devices()) {
    nn::Linear model(3, 2);
    model.to(device);
    EMA ema(model, {.decay = 0.9});
    for (const char* name : {"average.weight", "average.bias"}) {
      const Tensor average = ema.state_dict().at(name);
      for (int n = 0; n < 3; ++n) {
        const uint32_t before = average.version();
        ema.update();
        CHECK(average.version() == before + 1);
      }
    }
  }
}

TEST_CASE("EMA: one launch for all weights of a ResNet") {
  for (const Device device : devices()) {
    if (device.is_cpu()) continue;
    auto model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
    model.to(device);
    EMA ema(model);
    const uint64_t before = cuda::counters().launches;
    ema.update();
    CHECK(cuda::counters().launches - before == 1);
  }
}

TEST_CASE("EMA: a decay that is no share is refused") {
  nn::Linear model(3, 2);
  CHECK_THROWS_WITH_AS(EMA(model, {.decay = 1.5}),
                       doctest::Contains("decay must be in [0,1], got 1.5"), ValueError);
  CHECK_THROWS_WITH_AS(EMA(model, {.decay = std::nan("")}), doctest::Contains("got nan"),
                       ValueError);
}

}  // namespace
}  // namespace lathe
