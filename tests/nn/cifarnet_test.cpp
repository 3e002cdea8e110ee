// CifarNet: training steps against PyTorch's numbers (golden_cifarnet.h, made by golden_cifarnet.py),
// and its initial values.
#include "lathe/nn/cifarnet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "golden_cifarnet.h"
#include "golden_training.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/init.h"
#include "lathe/nn/models.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/muon.h"
#include "lathe/optim/param_groups.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// Ten training steps and an evaluation, as golden_cifarnet.py makes them.
std::vector<double> losses_of(nn::CifarNet net) {
  net.to(kF64);
  fill(net);
  auto [filters, others] = optim::split_for_muon(net);
  optim::Muon opt({{.params = filters,
                    .lr = 0.24,
                    .weight_decay = 0,
                    .momentum = 0.6,
                    .ns_steps = 3,
                    .normalize = true},
                   {.params = others, .lr = 0.02, .weight_decay = 0.01, .use_sgd = true}},
                  {.momentum = 0.85, .ns_bf16 = false});
  std::vector<double> losses;
  for (uint32_t step = 0; step < 10; ++step) {
    const Batch batch = batch_of(step, 8, 16, kF64);
    const Tensor loss = cross_entropy(net(batch.x), batch.y, {.label_smoothing = 0.2});
    opt.zero_grad();
    loss.backward();
    losses.push_back(loss.item<double>());
    opt.step();
  }
  net.eval();
  const NoGrad off;
  const Batch batch = batch_of(10, 8, 16, kF64);
  losses.push_back(cross_entropy(net(batch.x), batch.y).item<double>());
  return losses;
}

void check_losses(const std::vector<double>& losses, std::span<const double> pytorch) {
  REQUIRE(losses.size() == pytorch.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK_MESSAGE(std::fabs(losses[i] - pytorch[i]) <= 1e-9 * pytorch[i], "step ", i, ": got ",
                  losses[i], ", PyTorch ", pytorch[i]);
  }
}

}  // namespace

TEST_CASE("CifarNet in f64: ten training steps and an evaluation give PyTorch's losses") {
  check_losses(losses_of(nn::CifarNet()), kCifarNetLosses);
  check_losses(losses_of(nn::CifarNet({.widths = {16, 24, 32}, .residual = true})),
               kResidualLosses);
}

TEST_CASE("CifarNet: what it begins with, what is trained, and what it refuses") {
  const auto net = nn::make_model("cifarnet", {.classes = 10});
  CHECK(nn::count_parameters(*net) == 1'972'792);
  int64_t trained = 0;
  for (const Tensor& p : net->parameters()) trained += p.requires_grad() ? p.numel() : 0;
  CHECK(trained == 1'972'792 - 24 * 12 - 1152);  // without the whitening filters and the scales
  for (const auto& [name, p] : net->named_parameters()) {
    if (p.ndim() != 4 || name == "whiten.weight") continue;
    const int64_t passed = std::min(p.dim(0), p.dim(1));
    const Tensor dirac = nn::init::dirac_(empty_like(p.detach()));
    CHECK(p.detach().narrow(0, 0, passed).to_vector<float>() ==
          dirac.narrow(0, 0, passed).to_vector<float>());
    if (passed < p.dim(0)) CHECK(min(abs(p.detach().narrow(0, passed, 1))).item<float>() > 0);
  }
  const NoGrad off;
  net->eval();
  for (const int64_t side : {9, 16, 32, 40})
    CHECK((*net)(zeros({1, 3, side, side + 1})).shape() == Shape{1, 10});
  CHECK(nn::CifarNet({.classes = 7, .in_channels = 1})(zeros({2, 1, 28, 28})).shape() ==
        Shape{2, 7});
  CHECK_THROWS_WITH_AS((*net)(zeros({1, 3, 8, 9})),
                       doctest::Contains("CifarNet: images need at least 9 x 9 pixels"),
                       ShapeError);
}

TEST_CASE("CifarNet: the wide one has airbench96's filters") {
  const auto wide = nn::make_model("cifarnet_wide", {.classes = 10});
  CHECK(nn::count_parameters(*wide) == 9'918'776);
  std::vector<Shape> filters;
  for (const auto& [name, p] : wide->named_parameters()) {
    if (p.ndim() == 4 && name != "whiten.weight") filters.push_back(p.shape());
  }
  CHECK(filters == std::vector<Shape>{{128, 24, 3, 3},
                                      {128, 128, 3, 3},
                                      {128, 128, 3, 3},
                                      {384, 128, 3, 3},
                                      {384, 384, 3, 3},
                                      {384, 384, 3, 3},
                                      {512, 384, 3, 3},
                                      {512, 512, 3, 3},
                                      {512, 512, 3, 3}});
  CHECK_THROWS_AS(nn::CifarNet({.widths = {8, 0, 8}}), ValueError);
}

TEST_CASE("CifarNet: under autocast to bf16, small differences of neighbouring pixels count") {
  Generator generator(1);  // plain images with a little noise, finer than the steps of bf16 at 2
  const Tensor images =
      randn({20, 3, 1, 1}, {}, &generator) + randn({20, 3, 9, 9}, {}, &generator) * 0.01;
  nn::CifarNet net;
  net.whiten_images(images);
  const NoGrad off;
  net.train();  // with the batch's statistics
  const Tensor want = net(images);
  const Autocast half(kCPU, kBF16);
  const Tensor error = net(images).to(kF32) - want;
  CHECK(norm(error).item<double>() < 0.05 * norm(want).item<double>());
}

TEST_CASE("CifarNet: whiten_images fills the first layer, which stays untrained") {
  nn::CifarNet net;
  Generator generator(1);
  const Tensor images = randn({20, 3, 8, 8}, {}, &generator);
  net.whiten_images(images);
  const Tensor want = nn::init::whitening_(empty({24, 3, 2, 2}), images);
  CHECK(net.whiten.weight.to_vector<float>() == want.to_vector<float>());
  CHECK_FALSE(net.whiten.weight.requires_grad());
  CHECK(net.whiten.bias.requires_grad());
}
