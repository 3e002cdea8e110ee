// Adafactor against PyTorch's (golden_rules.py), and in other memory orders, dtypes and devices
// against the plain case.
#include "lathe/optim/adafactor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "golden_rules.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "loss_scaling.h"
#include "make_optimizer.h"

using namespace lathe;
using namespace lathe::optim;
using namespace lathe::test;

namespace {

constexpr int kSteps = 10;

/// The numbers of golden_rules.py.
std::vector<double> values(int64_t factor, int64_t step, int64_t count) {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<double>((factor * i + 5 * step) % 11 - 5) / 8);
  return out;
}

/// Ten steps of a parameter with this memory.
std::vector<double> after_steps(const Tensor& p, const AdafactorOptions& o) {
  p.requires_grad_();
  const auto fill = [&](const Tensor& to, int64_t factor, int64_t step) {
    copy_values(to, tensor(values(factor, step, to.numel()), to.dtype()).reshape(to.shape()));
  };
  fill(p.detach(), 3, 0);
  Adafactor optimizer({p}, o);
  for (int64_t step = 0; step < kSteps; ++step) {
    const Tensor g = empty(p.shape(), {.dtype = p.dtype()});
    fill(g, 7, step);
    p.set_grad(g);
    optimizer.step();
  }
  return p.to_vector<double>();
}

void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i, ": got ", got[i], ", want ", want[i]);
    CHECK(std::abs(got[i] - want[i]) <= tolerance);
  }
}

const AdafactorOptions kPlain{.lr = 0.1};
const AdafactorOptions kAll{.lr = 0.25,
                            .beta2_decay = -0.5,
                            .eps1 = 0.25,
                            .eps2 = 0.5,
                            .d = 1.125,
                            .weight_decay = 0.125,
                            .maximize = true};

}  // namespace

TEST_CASE("Adafactor: ten steps are PyTorch's") {
  for (const DType dtype : {kF64, kF32}) {
    const double tolerance = dtype == kF64 ? 1e-12 : 1e-5;
    const TensorOptions o{.dtype = dtype};
    check_near(after_steps(empty({6}, o), kPlain), golden::kAdafactorVector, tolerance);
    check_near(after_steps(empty({6}, o), kAll), golden::kAdafactorVectorOptions, tolerance);
    check_near(after_steps(empty({2, 3}, o), kPlain), golden::kAdafactorMatrix, tolerance);
    check_near(after_steps(empty({3, 2}, o), kAll), golden::kAdafactorMatrixOptions, tolerance);
    check_near(after_steps(empty({2, 2, 3}, o), kPlain), golden::kAdafactorStack, tolerance);
  }
}

TEST_CASE("Adafactor: the order of memory changes no value") {
  const TensorOptions f64{.dtype = kF64};
  const Tensor by_columns = transpose(empty({2, 3}, f64), 0, 1).detach();
  check_near(after_steps(by_columns, kAll), golden::kAdafactorMatrixOptions, 1e-12);
  check_near(after_steps(slice(empty({2, 6}, f64), 1, 0, 6, 2).detach(), kPlain),
             golden::kAdafactorMatrix, 1e-12);

  Generator generator(3);
  const Tensor start = randn({4, 3, 2, 2}, f64, &generator),
               g = randn({4, 3, 2, 2}, f64, &generator);
  std::vector<std::vector<double>> results;
  for (const bool nhwc : {false, true}) {
    const Tensor p = (nhwc ? start.contiguous(kChannelsLast) : start).clone().detach();
    p.requires_grad_();
    p.set_grad(g);
    Adafactor optimizer({p}, kPlain);
    for (int s = 0; s < 3; ++s) optimizer.step();
    CHECK(optimizer.state_dict().find("state.0.row_var")->shape() == Shape{4, 3, 2, 1});
    CHECK(optimizer.state_dict().find("state.0.col_var")->shape() == Shape{4, 3, 1, 2});
    results.push_back(p.to_vector<double>());
  }
  check_near(results[1], results[0], 1e-12);
}

TEST_CASE("Adafactor: half parameters have the machine epsilon of their type") {
  // Of a gradient of 0.001 in bf16, v = 1e-6 is below eps1², so that u = 0.001 / 2^-7.
  const double epsilon = 0x1p-7, g = 0x1p-10;
  const Tensor p = ones({2}, {.dtype = kBF16}).requires_grad_();
  p.set_grad(full({2}, g, {.dtype = kBF16}));
  Adafactor optimizer({p}, {.lr = 1, .eps2 = 0});
  optimizer.step();
  check_near(p.to_vector<double>(), std::vector<double>(2, 1 - g / epsilon), 0x1p-8);
  const Tensor with_master = ones({2}, {.dtype = kBF16}).requires_grad_();
  with_master.set_grad(full({2}, g, {.dtype = kBF16}));
  Adafactor wide({with_master}, {.lr = 0.5, .eps2 = 0, .master_weights = true});
  wide.step();
  check_near(with_master.to_vector<double>(), std::vector<double>(2, 0.5), 0x1p-8);
}

TEST_CASE("Adafactor: a state goes on, one of other shapes is refused, empty parameters stay") {
  const TensorOptions f64{.dtype = kF64};
  const auto make_params = [&] {
    Generator generator(4);
    Tensors out;
    for (const Shape& shape : {Shape{3, 4}, Shape{5}, Shape{}, Shape{0, 2}}) {
      out.push_back(param(randn(shape, f64, &generator), kCPU));
      out.back().set_grad(randn(shape, f64, &generator));
    }
    return out;
  };
  const Tensors params = make_params(), others = make_params();
  Adafactor first(params, kPlain), second(others, kPlain);
  first.step();
  second.load_state_dict(first.state_dict());
  for (size_t i = 0; i < params.size(); ++i) copy_values(others[i].detach(), params[i].detach());
  first.step();
  second.step();
  CHECK(everything(others, second) == everything(params, first));
  StateDict state = first.state_dict();
  Adafactor turned({param(ones({12}), kCPU), others[1], others[2], others[3]}, kPlain);
  CHECK_THROWS_WITH_AS(turned.load_state_dict(state),
                       doctest::Contains("unexpected state.0.row_var"), ValueError);
}

TEST_CASE("Adafactor: options out of range are refused by name") {
  const Tensors p = {param(ones({2}), kCPU)};
  CHECK(Adafactor(p, 0.25).lr() == 0.25);
  CHECK_THROWS_WITH_AS(Adafactor(p, {.beta2_decay = 0.5}),
                       doctest::Contains("Adafactor: beta2_decay must not be positive, got 0.5"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Adafactor(p, {.d = 0.5}),
                       doctest::Contains("Adafactor: d must be at least 1, got 0.5"), ValueError);
  CHECK_THROWS_WITH_AS(Adafactor(p, {.eps2 = -1}), doctest::Contains("Adafactor: eps2"),
                       ValueError);
}

TEST_CASE("Adafactor: a GPU gives the CPU's values, captured too" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const auto make_params = [&](Device on) {
    Generator generator(8);
    Tensors out;
    for (const Shape& shape : {Shape{4, 6}, Shape{6, 3, 2}, Shape{9}, Shape{}}) {
      out.push_back(param(randn(shape, {}, &generator), on));
      out.back().set_grad(randn(shape, {}, &generator).to(on));
    }
    return out;
  };
  const Tensors host = make_params(kCPU), eager = make_params(device),
                captured = make_params(device);
  Adafactor first(host, kPlain), second(eager, kPlain), third(captured, kPlain);
  third.set_capturable();
  third.step();
  lathe::cuda::Graph graph(device);
  graph.capture([&] { third.step(); });
  for (int s = 0; s < 3; ++s) {
    if (s > 0) graph.launch();
    first.step();
    second.step();
  }
  CHECK(everything(captured, third) == everything(eager, second));
  for (size_t i = 0; i < host.size(); ++i)
    check_near(eager[i].to_vector<double>(), host[i].to_vector<double>(), 1e-5);
  const auto before = everything(eager, second);
  second.step({.found_inf = ones({}, {.device = device})});
  CHECK(everything(eager, second) == before);
}
