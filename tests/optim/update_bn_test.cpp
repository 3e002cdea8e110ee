// update_bn(), and averages with equal weights (EMA with swa).
#include "lathe/optim/update_bn.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/ema.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;
using optim::EMA;

TEST_CASE("EMA with swa: the mean of the weights at all updates") {
  for (const Device device : devices()) {
    nn::Linear model(3, 2);
    model.to(device);
    EMA ema(model, {.swa = true});
    double sum = 0;
    for (int n = 1; n <= 5; ++n) {
      const double value = n * n;
      {
        const NoGrad off;
        for (const Tensor& p : model.parameters()) p.fill_(value);
      }
      ema.update();
      if (device.is_cuda()) ema.update({.found_inf = ones({}, {.device = device})});  // not counted
      sum += value;
      for (const double x : ema.state_dict().at("average.weight").to_vector<double>())
        CHECK(x == doctest::Approx(sum / n).epsilon(1e-6));
    }
    const uint32_t version = model.weight.version();
    ema.copy_to_module();
    CHECK(model.weight.version() == version + 1);
    CHECK(model.weight.to_vector<double>() ==
          ema.state_dict().at("average.weight").to_vector<double>());
    const EMA::Applied applied(ema);
    CHECK_THROWS_WITH_AS(ema.copy_to_module(), doctest::Contains("EMA: "), StateError);
  }
}

/// Batches of four and five rows, whose channels differ.
Tensors batches() {
  Generator generator(1);
  return {randn({4, 3}, {}, &generator), randn({5, 3}, {}, &generator)};
}

/// As update_bn() wants them.
auto next_of(const Tensors& all) {
  return [&all, i = size_t{0}]() mutable { return i < all.size() ? all[i++] : Tensor(); };
}

TEST_CASE("update_bn: the statistics are the mean over batches, whatever the momentum") {
  const Tensors all = batches();
  std::vector<double> mean(3, 0), var(3, 0);
  for (const Tensor& x : all) {
    const auto values = x.to_vector<double>();
    const size_t rows = values.size() / 3;
    for (size_t c = 0; c < 3; ++c) {
      double m = 0, square = 0;
      for (size_t r = 0; r < rows; ++r) m += values[3 * r + c] / double(rows);
      for (size_t r = 0; r < rows; ++r) square += (values[3 * r + c] - m) * (values[3 * r + c] - m);
      mean[c] += m / 2;
      var[c] += square / double(rows - 1) / 2;
    }
  }
  for (const std::optional<double> momentum :
       {std::optional(0.1), std::optional(1.0), std::optional<double>()}) {
    nn::BatchNorm1d norm(3, {.momentum = momentum});
    {
      const NoGrad off;
      norm.running_mean.fill_(7);
    }
    norm.eval();
    optim::update_bn(norm, next_of(all));
    CHECK_FALSE(norm.is_training());
    CHECK(norm.num_batches_tracked.item<int64_t>() == 2);
    for (size_t c = 0; c < 3; ++c) {
      CHECK(norm.running_mean.to_vector<double>()[c] == doctest::Approx(mean[c]).epsilon(1e-5));
      CHECK(norm.running_var.to_vector<double>()[c] == doctest::Approx(var[c]).epsilon(1e-5));
    }
  }
}

/// One norm for two inputs, and one that no input reaches.
struct TwiceAndNever final : nn::Module {
  nn::BatchNorm1d twice{*this, "twice", 3};
  nn::BatchNorm1d never{*this, "never", 3};
  Tensor forward(const Tensor& x) override { return twice(x) + twice(x); }
};

TEST_CASE("update_bn: a norm that is called twice in a batch, and one that is not called") {
  const Tensors all = batches();
  nn::BatchNorm1d once(3);
  optim::update_bn(once, next_of(all));
  TwiceAndNever model;
  {
    const NoGrad off;
    model.never.running_mean.fill_(3);
  }
  optim::update_bn(model, next_of(all));
  CHECK(model.twice.num_batches_tracked.item<int64_t>() == 2);
  CHECK(model.never.num_batches_tracked.item<int64_t>() == 0);
  for (size_t c = 0; c < 3; ++c) {
    for (const auto& [got, expected] : {std::pair(model.twice.running_mean, once.running_mean),
                                        std::pair(model.twice.running_var, once.running_var)})
      CHECK(got.to_vector<double>()[c] ==
            doctest::Approx(expected.to_vector<double>()[c]).epsilon(1e-5));
    CHECK(model.never.running_mean.to_vector<double>()[c] == 3);
    CHECK(model.never.running_var.to_vector<double>()[c] == 1);
  }
}

/// A norm that is none of nn's, as those of models from files are.
struct ForeignNorm final : nn::Module {
  Tensor running_mean = buffer("running_mean", zeros({3}));
  Tensor forward(const Tensor& x) override { return x - running_mean; }
};

TEST_CASE("update_bn: norms that it cannot set are refused") {
  nn::Sequential model;
  model.add<nn::Linear>(3, 3);
  model.add<ForeignNorm>();
  const Tensors all = batches();
  CHECK_THROWS_WITH_AS(optim::update_bn(model, next_of(all)),
                       doctest::Contains("1 has running statistics"), ValueError);
}

TEST_CASE("EMA: a model that has moved to f64 is refused, as its averages are f32") {
  nn::Linear model(3, 2);
  EMA ema(model);
  model.to(kF64);
  CHECK_THROWS_WITH_AS(ema.update(), doctest::Contains("no longer fits its average"), StateError);
}

TEST_CASE("update_bn: without batches, and where the module throws, nothing changes") {
  nn::Sequential model;
  model.add<nn::BatchNorm1d>(3);
  model.add<nn::Linear>(3, 2);
  model.add<nn::BatchNorm1d>(2);
  const Tensors good = batches();
  optim::update_bn(model, next_of(good));
  model.eval();
  const auto state = [&] {
    std::vector<std::vector<double>> out;
    for (const auto& [name, t] : model.state_dict()) out.push_back(t.to_vector<double>());
    return out;
  };
  const auto before = state();
  optim::update_bn(model, [] { return Tensor(); });
  CHECK(state() == before);
  const Tensors bad = {ones({4, 3}), ones({4, 5})};
  CHECK_THROWS_AS(optim::update_bn(model, next_of(bad)), Error);
  CHECK(state() == before);
  CHECK_FALSE(model.is_training());
  nn::BatchNorm1d still(3, {.momentum = 0});
  CHECK_THROWS_WITH_AS(optim::update_bn(still, next_of(bad)), doctest::Contains("momentum of 0"),
                       ValueError);
}

}  // namespace
}  // namespace lathe
