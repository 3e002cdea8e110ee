// Gradient accumulation: backward() of loss / k over k parts of a batch, then one step, against one
// backward() over the whole batch. Gradients are sums over samples, so the two differ by the order
// of a sum alone. Where all partial sums are exact that is no difference at all. With batch norm in
// training they are two computations: it normalises each part by the part's own statistics, and
// moves its running statistics k times.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/losses.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;

struct Batch {
  Tensor x, y;
};

constexpr int64_t kSamples = 32, kFeatures = 6, kSteps = 3;

struct Run {
  DType dtype = kF32;
  std::optional<DType> amp = {};
  bool scaler = false, fused = false, batch_norm = false;
  double max_norm = 0;
  int64_t parts = 1;
};

void fill_model(nn::Module& model, bool whole_numbers) {
  const NoGrad off;
  Generator generator(3);
  for (const auto& [name, p] : model.named_parameters()) {
    if (name.find("bn") != std::string::npos) continue;
    const Tensor values = randn(p.shape(), {.dtype = kF64}, &generator);
    p.copy_(whole_numbers ? floor(values * 2) / 4.0 : values / 2.0);
  }
}

struct Net : nn::Module {
  explicit Net(bool batch_norm) : normed(batch_norm) {}
  const bool normed;
  nn::Linear first{*this, "first", kFeatures, 8};
  nn::BatchNorm1d bn{*this, "bn", 8};
  nn::Linear second{*this, "second", 8, 2};
  Tensor forward(const Tensor& x) override {
    const Tensor h = first(x);
    return second(tanh(normed ? bn(h) : h));
  }
};

/// All parameters after kSteps steps of SGD on one batch, in f64.
std::vector<double> train(nn::Module& model, const Batch& batch, const Run& run) {
  model.to(run.dtype);
  optim::SGD optimizer(model.parameters(), {.lr = 0x1p-6, .momentum = 0.5});
  optim::GradScaler scaler({.init_scale = 1024, .enabled = run.scaler});
  const Tensor x = batch.x.to(run.dtype), y = batch.y.to(run.dtype);
  for (int64_t s = 0; s < kSteps; ++s) {
    optimizer.zero_grad();
    for (int64_t part = 0; part < run.parts; ++part) {
      const int64_t size = kSamples / run.parts;
      Tensor loss;
      {
        std::optional<Autocast> scope;
        if (run.amp) scope.emplace(kCPU, *run.amp);
        loss = nn::MSELoss{}(model(x.narrow(0, part * size, size)), y.narrow(0, part * size, size));
      }
      scaler.scale(loss / static_cast<double>(run.parts)).backward();
    }
    if (run.scaler) {
      scaler.step(optimizer, {.max_grad_norm = run.max_norm, .fused = run.fused});
      scaler.update();
    } else {
      if (run.max_norm > 0) optim::clip_grad_norm_(model.parameters(), run.max_norm);
      optimizer.step();
    }
  }
  std::vector<double> out;
  for (const Tensor& p : model.parameters()) {
    for (const double value : p.to_vector<double>()) out.push_back(value);
  }
  return out;
}

std::vector<double> train_net(const Run& run) {
  Net net(run.batch_norm);
  fill_model(net, false);
  Generator generator(4);
  const Tensor x = randn({kSamples, kFeatures}, {.dtype = kF64}, &generator);
  return train(net, {x, randn({kSamples, 2}, {.dtype = kF64}, &generator)}, run);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// What the order of sums may change. Weights are below 2, where they are `epsilon` apart, and each
/// step rounds them once: one unit a step, and one for what the gradients differ by.
double rounding_of_sums(DType dtype) { return (kSteps + 1) * (dtype == kF64 ? 0x1p-52 : 0x1p-23); }

/// The same run with the batch in 1 and in `parts` parts.
double effect_of_parts(Run run, int64_t parts) {
  const std::vector<double> whole = train_net(run);
  run.parts = parts;
  return largest_difference(train_net(run), whole);
}

TEST_CASE("accumulation: where sums are exact it equals the large batch bit for bit") {
  // A linear model on data of small whole numbers: the first step's sums are exact in any order,
  // and so are those of two more steps in f64.
  const auto linear = [](const Run& run) {
    nn::Linear model(kFeatures, 2);
    fill_model(model, true);
    Generator generator(6);
    const Tensor x = randint(-3, 4, {kSamples, kFeatures}, {.dtype = kF64}, &generator);
    return train(model, {x, randint(-3, 4, {kSamples, 2}, {.dtype = kF64}, &generator)}, run);
  };
  for (const int64_t parts : {2, 8}) {
    CHECK(linear({.dtype = kF64, .parts = parts}) == linear({.dtype = kF64}));
    CHECK(linear({.dtype = kF64, .scaler = true, .parts = parts}) == linear({.dtype = kF64}));
  }
}

TEST_CASE("accumulation: otherwise it equals the large batch to the rounding of sums") {
  for (const int64_t parts : {2, 4, 32}) {
    CHECK(effect_of_parts({.dtype = kF64}, parts) <= rounding_of_sums(kF64));
    CHECK(effect_of_parts({.dtype = kF32}, parts) <= rounding_of_sums(kF32));
    // Clipping comes after the last part, when the gradients are the large batch's.
    CHECK(effect_of_parts({.dtype = kF64, .max_norm = 0.1}, parts) <= rounding_of_sums(kF64));
  }
}

TEST_CASE("accumulation: with a scaler and under Autocast it equals the large batch as well") {
  for (const bool fused : {false, true}) {
    const Run scaled{.dtype = kF32, .scaler = true, .fused = fused, .max_norm = 0.1};
    CHECK(effect_of_parts(scaled, 4) <= rounding_of_sums(kF32));
    // Products of halves are summed in f32 and rounded to the half type once per part: lr 2^-6
    // times the half's unit in the last place of gradients below 4, three times.
    Run f16 = scaled, bf16 = scaled;
    f16.amp = kF16;
    bf16.amp = kBF16;
    CHECK(effect_of_parts(f16, 4) < 3 * 0x1p-6 * 4 * 0x1p-11);
    CHECK(effect_of_parts(bf16, 4) < 3 * 0x1p-6 * 4 * 0x1p-8);
  }
}

TEST_CASE("accumulation: batch norm makes it another computation") {
  CHECK(effect_of_parts({.dtype = kF64, .batch_norm = true}, 4) > 1e-5);
}

}  // namespace
}  // namespace lathe
