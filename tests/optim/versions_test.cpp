// Every function that writes into a tensor counts its version up: an op that saved the old values
// must notice. A new function that writes gets a row here.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "make_optimizer.h"

namespace lathe {
namespace {

using test::make;
using test::MakeOptimizer;

/// `write` changes `target`: an op that saved target's values before must refuse afterwards.
void check_write(const std::string& name, const Tensor& target,
                 const std::function<void()>& write) {
  CAPTURE(name);
  const Tensor w = ones(target.shape(), {.dtype = target.dtype()}).requires_grad_();
  const Tensor y = mul(w, target.detach()).sum();  // of the values, not of their history
  const uint32_t before = target.version();
  write();
  CHECK(target.version() > before);
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("modified by an in-place operation"),
                       StateError);
}

struct InPlace {
  const char* name;
  void (*write)(const Tensor& x);
};

// clang-format off
const InPlace kInPlace[] = {
    {"add_", [](const Tensor& x) { add_(x, ones({2, 3})); }},
    {"add_ alpha", [](const Tensor& x) { add_(x, ones({2, 3}), 2); }},
    {"add_ number", [](const Tensor& x) { add_(x, 1); }},
    {"add_ itself", [](const Tensor& x) { add_(x, x); }},
    {"sub_", [](const Tensor& x) { sub_(x, ones({3})); }},
    {"mul_", [](const Tensor& x) { mul_(x, ones({2, 3})); }},
    {"mul_ number", [](const Tensor& x) { mul_(x, 2); }},
    {"div_", [](const Tensor& x) { div_(x, ones({2, 3})); }},
    {"div_ number", [](const Tensor& x) { div_(x, 2); }},
    {"copy_", [](const Tensor& x) { copy_(x, ones({2, 3})); }},
    {"copy_ of another dtype", [](const Tensor& x) { copy_(x, ones({3}, {.dtype = kF64})); }},
    {"fill_", [](const Tensor& x) { fill_(x, 3); }},
    {"zero_", [](const Tensor& x) { zero_(x); }},
    {"clamp_", [](const Tensor& x) { clamp_(x, {.low = 0, .high = 1}); }},
    {"neg_", [](const Tensor& x) { neg_(x); }},
    {"exp_", [](const Tensor& x) { exp_(x); }},
    {"sqrt_", [](const Tensor& x) { sqrt_(x); }},
    {"tanh_", [](const Tensor& x) { tanh_(x); }},
    {"sigmoid_", [](const Tensor& x) { sigmoid_(x); }},
    {"relu_", [](const Tensor& x) { relu_(x); }},
    {"assign_", [](const Tensor& x) { assign_("assign_", x, ones({2, 3})); }},
    {"masked_fill_", [](const Tensor& x) { masked_fill_(x, ones({3}, {.dtype = kBool}), 2); }},
    {"uniform_", [](const Tensor& x) { uniform_(x, 0, 1); }},
    {"normal_", [](const Tensor& x) { normal_(x, 0, 1); }},
    {"kaiming_uniform_", [](const Tensor& x) { nn::init::kaiming_uniform_(x); }},
    {"kaiming_normal_", [](const Tensor& x) { nn::init::kaiming_normal_(x); }},
    {"xavier_uniform_", [](const Tensor& x) { nn::init::xavier_uniform_(x); }},
    {"xavier_normal_", [](const Tensor& x) { nn::init::xavier_normal_(x); }},
    {"init::uniform_", [](const Tensor& x) { nn::init::uniform_(x, 0, 1); }},
    {"init::normal_", [](const Tensor& x) { nn::init::normal_(x, 0, 1); }},
    {"constant_", [](const Tensor& x) { nn::init::constant_(x, 2); }},
    {"zeros_", [](const Tensor& x) { nn::init::zeros_(x); }},
    {"ones_", [](const Tensor& x) { nn::init::ones_(x); }},
};

const MakeOptimizer kOptimizers[] = {
    make<optim::SGD>(optim::SGDOptions{.lr = 0.1}),
    make<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}),
    make<optim::Adam>(optim::AdamOptions{}),
    make<optim::AdamW>(optim::AdamWOptions{.amsgrad = true}),
    make<optim::RMSprop>(optim::RMSpropOptions{}),
    make<optim::LARS>(optim::LARSOptions{.lr = 0.1}),
    make<optim::LAMB>(optim::LAMBOptions{}),
    make<optim::Adafactor>(optim::AdafactorOptions{}),
      make<optim::NovoGrad>(optim::NovoGradOptions{}),
};
// clang-format on

Tensor param(const Shape& shape) { return ones(shape).requires_grad_(); }

}  // namespace

TEST_CASE("versions: every in-place op, on a tensor, through a view and where it is recorded") {
  for (const InPlace& op : kInPlace) {
    const Tensor x = full({2, 3}, 0.5f);
    check_write(op.name, x, [&] { op.write(x); });
    const Tensor wide = full({4, 3}, 0.5f);
    check_write(std::string(op.name) + " on a view", wide,
                [&] { op.write(wide.slice(0, 0, 4, 2)); });
    const Tensor result = param({2, 3}) * 0.5;
    check_write(std::string(op.name) + " recorded", result, [&] { op.write(result); });
    const Tensor leaf = param({2, 3});
    check_write(std::string(op.name) + " under NoGrad", leaf, [&] {
      const NoGrad off;
      op.write(leaf);
    });
  }
}

TEST_CASE("versions: parameters under every optimiser, gradients under what changes them") {
  int number = 0;
  for (const MakeOptimizer& make_one : kOptimizers) {
    const Tensor p = param({4});
    const auto optimizer = make_one({p});
    p.set_grad(ones({4}));
    const uint32_t before = p.grad().version();
    check_write(concat("optimiser ", ++number), p, [&] { optimizer->step(); });
    CHECK(p.grad().version() == before);  // a step leaves gradients alone
    for (const auto& [name, buffer] : optimizer->state_dict()) {
      if (!is_floating(buffer.dtype()) || buffer.numel() != 4) continue;
      check_write(concat("optimiser ", number, ": ", name), buffer, [&] { optimizer->step(); });
    }
    check_write("zero_grad", p.grad(), [&] { optimizer->zero_grad({.set_to_none = false}); });
  }
  const Tensor p = param({4});
  p.set_grad(ones({4}));
  check_write("clip_grad_norm_", p.grad(), [&] { optim::clip_grad_norm_({p}, 0.1); });
  check_write("clip_grad_value_", p.grad(), [&] { optim::clip_grad_value_({p}, 0.01); });
  check_write("backward", p.grad(), [&] { p.sum().backward(); });
}

TEST_CASE("versions: the scale, and the gradients that it divides") {
  const Tensor p = param({4});
  optim::SGD optimizer({p}, {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 4});
  const Tensor loss = p.sum();
  const Tensor scaled = scaler.scale(loss);
  scaled.backward({.retain_graph = true});
  check_write("unscale_", p.grad(), [&] { scaler.unscale_(optimizer); });
  check_write("step", p, [&] { scaler.step(optimizer); });
  const Tensor tracker = scaler.state_dict().at("growth_tracker");
  const uint32_t before = tracker.version();
  check_write("update", scaler.state_dict().at("scale"), [&] { scaler.update(); });
  CHECK(tracker.version() > before);
  CHECK_THROWS_AS(scaled.backward(), StateError);  // it would be multiplied by another scale
}

TEST_CASE("versions: averages, running statistics and what is loaded into a module") {
  nn::Linear model(3, 2);
  optim::EMA ema(model, {.decay = 0.5});
  for (const char* name : {"average.weight", "average.bias"}) {
    const Tensor average = ema.state_dict().at(name);
    const uint32_t before = average.version();
    check_write(name, average, [&] { ema.update(); });
    CHECK(average.version() == before + 1);
  }
  StateDict other;
  for (const auto& [name, t] : model.state_dict()) other.add(name, zeros_like(t));
  check_write("load_state_dict", model.weight, [&] { model.load_state_dict(other); });

  const Tensor x = randn({4, 3}), mean = zeros({3}), var = ones({3}),
               batches = zeros({}, {.dtype = kI64});
  const auto train = [&](const Tensor& in) {
    batch_norm(in, {}, {}, mean, var, {.training = true, .num_batches = batches});
  };
  check_write("running_mean", mean, [&] { train(x); });
  check_write("running_var", var, [&] { train(x); });
  const uint32_t before = batches.version();
  train(x);
  CHECK(batches.version() > before);
  train(zeros({0, 3}));
  CHECK(batches.version() > before + 1);
}

}  // namespace lathe
