// Half parameters with f32 masters: they train as f32 parameters do, and are their rounded copies.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
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

template <class O, class Options>
MakeOptimizer with_masters(Options options) {
  options.master_weights = true;
  return make<O>(options);
}

const std::vector<MakeOptimizer>& optimizers() {
  static const std::vector<MakeOptimizer> all = with_rule_optimizers(
      {
          with_masters<optim::SGD>(optim::SGDOptions{.lr = 0.01}),
          with_masters<optim::SGD>(optim::SGDOptions{
              .lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
          with_masters<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1}),
          with_masters<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true}),
          with_masters<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}),
          with_masters<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.9, .centered = true}),
          with_masters<optim::LARS>(optim::LARSOptions{.weight_decay = 0.1}),
          with_masters<optim::LAMB>(optim::LAMBOptions{.lr = 0.01}),
          with_masters<optim::Adafactor>(optim::AdafactorOptions{.weight_decay = 0.1}),
          with_masters<optim::NovoGrad>(optim::NovoGradOptions{.weight_decay = 0.1}),
      },
      true);
  return all;
}

/// Values that both types hold.
Tensor random_half(const Shape& shape, DType dtype, uint64_t seed) {
  Generator generator(seed);
  return randn(shape, {}, &generator).to(dtype);
}

TEST_CASE("master weights: half parameters are the rounded values of an f32 run, bit for bit") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF16, kBF16}) {
      for (const MakeOptimizer& make_optimizer : optimizers()) {
        // An emulated GPU is slow: half of the rules in each type.
        const bool even = (&make_optimizer - optimizers().data()) % 2 == 0;
        if (!device.is_cpu() && even != (dtype == kF16)) continue;
        Tensors halves, floats;
        for (const int64_t n : {40, 1, 0}) {
          const Tensor start = random_half({n}, dtype, 1);
          halves.push_back(param(start, device));
          floats.push_back(param(start.to(kF32), device));
        }
        const auto optimizer = make_optimizer(halves), reference = make_optimizer(floats);
        INFO(optimizer->name(), ", ", name_of(dtype), " on ", device);
        for (uint64_t s = 0; s < 4; ++s) {
          for (size_t i = 0; i < halves.size(); ++i) {
            const Tensor g = random_half(halves[i].shape(), dtype, 10 + s);
            halves[i].set_grad(g.to(device));
            floats[i].set_grad(g.to(kF32).to(device));
          }
          const Tensor flag = full({}, s == 2 ? 1.0 : 0.0, {.device = device});
          optimizer->step({.found_inf = flag});
          reference->step({.found_inf = flag});
        }
        const StateDict state = optimizer->state_dict();
        for (size_t i = 0; i < halves.size(); ++i) {
          CHECK(halves[i].to_vector<float>() == floats[i].to(dtype).to_vector<float>());
          CHECK(state.at(concat("state.", i, ".master_param")).to_vector<float>() ==
                floats[i].to_vector<float>());
        }
        CHECK_FALSE(reference->state_dict().contains("state.0.master_param"));
      }
    }
  }
}

TEST_CASE("master weights: steps below half a unit in the last place add up") {
  for (const bool master : {false, true}) {
    const Tensor p = param(ones({4}, {.dtype = kBF16}), kCPU);
    optim::SGD optimizer({p}, {.lr = 0x1p-12, .master_weights = master});
    for (int s = 0; s < 1024; ++s) {
      p.set_grad(ones({4}, {.dtype = kBF16}));
      optimizer.step();
    }
    CHECK(p.to_vector<float>()[0] == (master ? 0.75f : 1.0f));
  }
}

TEST_CASE("master weights: values written from outside take the master's place") {
  for (const Device device : devices()) {
    const Tensor p = param(ones({3}, {.dtype = kF16}), device);
    optim::SGD optimizer({p}, {.lr = 0x1p-13, .master_weights = true});
    const auto step = [&] {
      p.set_grad(ones({3}, {.dtype = kF16, .device = device}));
      optimizer.step();
    };
    step();
    CHECK(optimizer.state_dict().at("state.0.master_param").to_vector<float>()[0] == 1 - 0x1p-13f);
    {
      const NoGrad off;
      p.select(0, 1).fill_(2);
    }
    step();
    CHECK(optimizer.state_dict().at("state.0.master_param").to_vector<float>() ==
          std::vector<float>{1 - 0x1p-12f, 2 - 0x1p-13f, 1 - 0x1p-12f});
  }
}

TEST_CASE(
    "master weights: interrupted and resumed equals uninterrupted, with or without the option") {
  const auto run = [](bool interrupt, bool resume_with_master) {
    Tensor p = param(random_half({40}, kBF16, 1), kCPU);
    auto optimizer = std::make_unique<optim::AdamW>(
        Tensors{p}, optim::AdamWOptions{.lr = 0.01, .master_weights = true});
    for (uint64_t s = 0; s < 8; ++s) {
      if (interrupt && s == 4) {
        const StateDict state = optimizer->state_dict().clone();
        p = param(p, kCPU);
        optimizer = std::make_unique<optim::AdamW>(
            Tensors{p}, optim::AdamWOptions{.master_weights = resume_with_master});
        optimizer->load_state_dict(state);
      }
      p.set_grad(random_half({40}, kBF16, 30 + s));
      optimizer->step();
    }
    return p.to_vector<float>();
  };
  CHECK(run(true, true) == run(false, true));
  CHECK(run(true, false) != run(false, true));  // goes on without masters

  // A state from before there were masters: they begin with the parameters.
  const Tensor p = param(random_half({5}, kBF16, 1), kCPU);
  optim::SGD plain({p}, {.lr = 0.1, .momentum = 0.9});
  p.set_grad(ones({5}, {.dtype = kBF16}));
  plain.step();
  optim::SGD with({p}, {.lr = 0.1, .momentum = 0.9, .master_weights = true});
  with.load_state_dict(plain.state_dict());
  const float before = p.to_vector<float>()[0];
  with.step();
  CHECK(with.state_dict().at("state.0.master_param").to_vector<float>()[0] ==
        doctest::Approx(before - 0.1f * 1.9f).epsilon(1e-6));
}

}  // namespace
}  // namespace lathe
