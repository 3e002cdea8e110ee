// Gradient clipping against the definition.
#include "lathe/optim/clip_grad.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lathe/core/half.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"

namespace lathe {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor with_grad(const Tensor& grad) {
  const Tensor p = zeros(grad.shape(), {.dtype = grad.dtype()});
  p.requires_grad_();
  p.set_grad(grad);
  return p;
}

TEST_CASE("clip_grad_norm_: the norm over all gradients, for any p, and the scaled gradients") {
  for (const double p : {1.0, 2.0, 2.5, 3.0, kInf}) {
    for (const double max_norm : {0.5, 1e6}) {
      CAPTURE(p);
      CAPTURE(max_norm);
      const std::vector<double> a = {3, -4, 0.5}, b = {1, -7};
      const Tensor x = with_grad(tensor(a)), y = with_grad(tensor(b)),
                   none = zeros({4}, {.requires_grad = true});
      double total = 0;
      for (const double v : {3.0, -4.0, 0.5, 1.0, -7.0}) {
        total = p == kInf ? std::max(total, std::abs(v)) : total + std::pow(std::abs(v), p);
      }
      if (p != kInf) total = std::pow(total, 1 / p);
      const Tensor got = optim::clip_grad_norm_({x, none, y}, max_norm, {.norm = p});
      CHECK(got.shape() == Shape{});
      CHECK(got.dtype() == kF64);
      CHECK(got.item<double>() == doctest::Approx(total).epsilon(1e-14));
      const double factor = std::min(1.0, max_norm / (total + 1e-6));
      for (size_t i = 0; i < a.size(); ++i) {
        CHECK(x.grad().to_vector<double>()[i] == doctest::Approx(a[i] * factor).epsilon(1e-13));
      }
      for (size_t i = 0; i < b.size(); ++i) {
        CHECK(y.grad().to_vector<double>()[i] == doctest::Approx(b[i] * factor).epsilon(1e-13));
      }
      CHECK_FALSE(none.grad().defined());
    }
  }
}

TEST_CASE("clip_grad_norm_: no gradients give 0, and half gradients are summed wide") {
  CHECK(optim::clip_grad_norm_({zeros({2}, {.requires_grad = true})}, 1).item<double>() == 0);
  CHECK(optim::clip_grad_norm_({}, 1).item<double>() == 0);
  const Tensor half = with_grad(full({400}, 200.0, {.dtype = kF16}));  // squares overflow f16
  const Tensor total = optim::clip_grad_norm_({half}, 4000);
  CHECK(total.dtype() == kF32);
  CHECK(total.item<double>() == 4000);
  CHECK(half.grad().dtype() == kF16);
}

TEST_CASE("clip_grad_norm_: an infinite total makes finite entries 0 and infinite ones NaN") {
  const Tensor p = with_grad(tensor({1.0, kInf, -2.0}, kF64));
  CHECK(optim::clip_grad_norm_({p}, 1).item<double>() == kInf);
  const auto g = p.grad().to_vector<double>();
  CHECK(g[0] == 0);
  CHECK(std::isnan(g[1]));
  CHECK(g[2] == 0);
}

TEST_CASE("clip_grad_norm_: a NaN total is returned, or thrown with the gradients unchanged") {
  const Tensor p = with_grad(tensor({1.0, std::nan("")}, kF64));
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm_({p}, 1, {.error_if_nonfinite = true}),
                       doctest::Contains("the total norm of 1 gradients is nan"), StateError);
  CHECK(p.grad().to_vector<double>()[0] == 1);
  CHECK(std::isnan(optim::clip_grad_norm_({p}, 1).item<double>()));
  CHECK(std::isnan(p.grad().to_vector<double>()[0]));
  CHECK(std::isnan(optim::clip_grad_norm_({p}, 1, {.norm = kInf}).item<double>()));
}

TEST_CASE("clip_grad_norm_: any layout, expanded and zero-size gradients; the version goes up") {
  const Tensor base = tensor({{3.0, 9.0, 4.0}, {0.0, 9.0, 0.0}}, kF64);
  const Tensor sliced = slice(base, 1, 0, 3, 2);  // 3 4 / 0 0, stride 2
  const Tensor p = with_grad(sliced), q = with_grad(zeros({0, 2}, {.dtype = kF64}));
  const uint32_t version = p.grad().version();
  CHECK(optim::clip_grad_norm_({p, q}, 1).item<double>() == 5);
  CHECK(p.grad().version() > version);
  CHECK(p.grad().to_vector<double>()[0] == doctest::Approx(0.6));
  CHECK(base.to_vector<double>()[1] == 9);

  const Tensor one = tensor(2.0, kF64);
  const Tensor e = with_grad(expand(one, {4}));
  CHECK(optim::clip_grad_norm_({e}, 1).item<double>() == 4);
  CHECK(e.grad().to_vector<double>()[3] == doctest::Approx(0.5));
  CHECK(one.item<double>() == 2);  // the source of the expansion is not written
}

TEST_CASE("clip_grad_norm_: the number of threads changes no bit") {
  const int threads = num_threads();
  Generator generator(3);
  const Tensor g = randn({100003}, {}, &generator);
  std::vector<double> totals;
  for (const int count : {1, 3}) {
    set_num_threads(count);
    totals.push_back(optim::clip_grad_norm_({with_grad(g)}, 1e9).item<double>());
  }
  set_num_threads(threads);
  CHECK(totals[0] == totals[1]);
}

TEST_CASE("clip_grad_value_: clamps to both bounds and keeps NaN") {
  const Tensor p = with_grad(tensor({-3.0, 0.25, 3.0, std::nan("")}, kF64));
  optim::clip_grad_value_({p, zeros({1}, {.requires_grad = true})}, 0.5);
  const auto g = p.grad().to_vector<double>();
  CHECK(std::vector<double>(g.begin(), g.begin() + 3) == std::vector<double>{-0.5, 0.25, 0.5});
  CHECK(std::isnan(g[3]));
}

TEST_CASE("clipping: bad limits are errors with the value") {
  const Tensor p = with_grad(tensor({1.0}, kF64));
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm_({p}, -1),
                       doctest::Contains("max_norm must not be negative, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm_({p}, std::nan("")),
                       doctest::Contains("max_norm must not be negative, got nan"), ValueError);
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm_({p}, 1, {.norm = 0}),
                       doctest::Contains("norm must be above 0, got 0"), ValueError);
  CHECK_THROWS_WITH_AS(optim::clip_grad_value_({p}, -2), doctest::Contains("got -2"), ValueError);
}

}  // namespace
}  // namespace lathe
