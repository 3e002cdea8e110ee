// The kernels of ops/row_kernels/nll_loss_cuda.cu and ops/row_kernels/cross_entropy_cuda.cu against the CPU ops.
#include <doctest/doctest.h>

#include <limits>

#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/nll_loss.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  int64_t outer, classes, inner;
};
const Case kCases[] = {{1, 1, 1},  {33, 10, 1}, {3, 31, 1},  {2, 1023, 1}, {2, 1025, 1},
                       {3, 10, 7}, {2, 70, 33}, {1, 3, 300}, {0, 3, 1}};

struct Inputs {
  Tensor x, g;
  ClassTargets targets;
};

Inputs inputs_of(const Case& c, DType dtype, bool weighted) {
  const DType wide = loss_dtype(dtype);
  Inputs in;
  in.x = cast(randn({c.outer, c.classes, c.inner}) * 3, dtype);
  in.g = cast(randn({c.outer, c.inner}), wide);
  in.targets.classes = c.classes;
  in.targets.inner = c.inner;
  in.targets.index = randint(0, c.classes, {c.outer, c.inner}, {.dtype = kI64});
  if (in.targets.rows() > 1) in.targets.index.reshape({-1}).select(0, 1).fill_(-100);  // ignored
  if (weighted) in.targets.weight = cast(rand({c.classes}) + 0.5, wide);
  return in;
}

ClassTargets on_device(ClassTargets t) {
  t.index = lathe::test::on_device(t.index);
  if (t.weight.defined()) t.weight = lathe::test::on_device(t.weight);
  return t;
}

void check(const char* what, const Tensor& got, const Tensor& want, double tol) {
  const std::string wrong = difference(on_host(got), want, tol);
  CHECK_MESSAGE(wrong.empty(), what, ": ", wrong);
}

void compare_cross_entropy(const Inputs& in, double smoothing) {
  const DType dtype = in.x.dtype();
  const auto rows_on = [&](Device device) {
    const TensorOptions options{.dtype = loss_dtype(dtype), .device = device};
    const auto row = [&] { return empty(in.g.shape(), options); };
    return CrossEntropyRows{row(), row(), row(), row()};
  };
  const Tensor x = lathe::test::on_device(in.x), g = lathe::test::on_device(in.g);
  const ClassTargets targets = on_device(in.targets);
  const CrossEntropyRows want = rows_on(kCPU), got = rows_on(x.device());
  cpu::cross_entropy_forward(want, in.x, in.targets, smoothing);
  cuda::cross_entropy_forward(got, x, targets, smoothing);
  const Tensor want_dx = empty_like(in.x), got_dx = empty_like(x);
  cpu::cross_entropy_backward(want_dx, in.g, want, in.x, in.targets, smoothing);
  cuda::cross_entropy_backward(got_dx, g, got, x, targets, smoothing);
  CAPTURE(concat(in.x, targets.weight.defined() ? " weighted" : "", " smoothing ", smoothing));
  const double tol = tolerance_of(loss_dtype(dtype));
  check("loss", got.loss, want.loss, tol);
  check("weight", got.weight, want.weight, 0);
  check("largest", got.largest, want.largest, 0);
  check("log_sum", got.log_sum, want.log_sum, tol);
  check("dx", got_dx, want_dx, tolerance_of(dtype));
}

void compare_cross_entropy(const Case& c, DType dtype, bool weighted, double smoothing) {
  compare_cross_entropy(inputs_of(c, dtype, weighted), smoothing);
}

void compare_nll(const Case& c, DType dtype, bool weighted) {
  const Inputs in = inputs_of(c, dtype, weighted);
  const Tensor x = lathe::test::on_device(in.x), g = lathe::test::on_device(in.g);
  const ClassTargets targets = on_device(in.targets);
  const Tensor want = empty_like(in.g), want_weight = empty_like(in.g), want_dx = empty_like(in.x);
  const Tensor got = empty_like(g), got_weight = empty_like(g), got_dx = empty_like(x);
  cpu::nll_loss_forward(want, want_weight, in.x, in.targets);
  cpu::nll_loss_backward(want_dx, in.g, in.targets);
  cuda::nll_loss_forward(got, got_weight, x, targets);
  cuda::nll_loss_backward(got_dx, g, targets);
  CAPTURE(concat(in.x, weighted ? " weighted" : ""));
  check("loss", got, want, 0);
  check("weight", got_weight, want_weight, 0);
  check("dlogp", got_dx, want_dx, 0);
}

}  // namespace

TEST_CASE("cross_entropy kernels: rows of every length and distance, weights, smoothing") {
  for (const Case& c : kCases) {
    compare_cross_entropy(c, kF32, false, 0);
    compare_cross_entropy(c, kF32, true, 0.1);
  }
  for (const DType dtype : {kF16, kBF16, kF64}) {
    for (const bool weighted : {false, true}) {
      compare_cross_entropy({3, 12, 1}, dtype, weighted, 0);
      compare_cross_entropy({2, 12, 5}, dtype, weighted, 0.2);
    }
  }
}

TEST_CASE("cross_entropy kernels: infinite and NaN scores") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const int64_t n : {3, 40, 1100}) {
    const Inputs in = inputs_of({6, n, 1}, kF32, false);
    in.x.select(0, 0).fill_(-kInf);
    in.x.select(0, 2).fill_(kInf);
    in.x.select(0, 3).select(0, n - 1).fill_(kInf);
    in.x.select(0, 4).select(0, 1).fill_(-kInf);
    in.x.select(0, 5).select(0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    in.targets.index.select(0, 3).fill_(0);  // another class than the infinite one
    for (const double smoothing : {0.0, 0.1}) compare_cross_entropy(in, smoothing);
  }
}

TEST_CASE("nll_loss kernels: rows of every length and distance, weights") {
  for (const Case& c : kCases) {
    compare_nll(c, kF32, false);
    compare_nll(c, kF32, true);
  }
  for (const DType dtype : {kF16, kBF16, kF64}) compare_nll({3, 12, 2}, dtype, true);
}

TEST_CASE("class losses: a bad target has a NaN loss and gradients of 0") {
  Inputs in = inputs_of({4, 5, 1}, kF32, false);
  for (const int64_t bad : {int64_t{5}, int64_t{-1}}) {
    in.targets.index.reshape({-1}).select(0, 2).fill_(bad);
    const Tensor x = lathe::test::on_device(in.x), g = lathe::test::on_device(in.g);
    const ClassTargets targets = on_device(in.targets);
    const std::vector<double> zeros(5, 0.0);
    const auto is_nan = [](const Tensor& losses, size_t i) {
      return std::isnan(on_host(losses).to_vector<double>()[i]);
    };
    const CrossEntropyRows rows{empty_like(g), empty_like(g), empty_like(g), empty_like(g)};
    const Tensor dx = empty_like(x);
    cuda::cross_entropy_forward(rows, x, targets, 0.1);
    cuda::cross_entropy_backward(dx, g, rows, x, targets, 0.1);
    CHECK(is_nan(rows.loss, 2));
    CHECK(!is_nan(rows.loss, 3));
    CHECK(difference(on_host(dx).select(0, 2), zeros, 0) == "");

    const Tensor loss = empty_like(g), weight = empty_like(g);
    cuda::nll_loss_forward(loss, weight, x, targets);
    cuda::nll_loss_backward(dx, g, targets);
    CHECK(is_nan(loss, 2));
    CHECK(!is_nan(loss, 3));
    CHECK(difference(on_host(dx).select(0, 2), zeros, 0) == "");
  }
}
