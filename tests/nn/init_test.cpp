// init::trunc_normal_ and init::orthogonal_ against their definitions.
#include "lathe/nn/init.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "lathe/core/random/generator.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

double cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("init: trunc_normal_ has the conditional distribution, also in a tail") {
  struct Case {
    double mean, std, low, high;
  };
  for (const Case& c : {Case{0, 1, -2, 2}, Case{0, 1, -4, 5}, Case{1, 0.5, -1, 1.25},
                        Case{0, 1, 5, 9}, Case{0, 1, -9, -5}}) {
    Generator generator(11);
    const Tensor w = empty({20000}, kF64);
    nn::init::trunc_normal_(
        w, {.mean = c.mean, .std = c.std, .low = c.low, .high = c.high, .generator = &generator});
    CHECK(min(w).item<double>() >= c.low);
    CHECK(max(w).item<double>() <= c.high);
    // The share below any number t: a standard deviation of at most 0.0036.
    const double a = cdf((c.low - c.mean) / c.std), b = cdf((c.high - c.mean) / c.std);
    for (const double part : {0.1, 0.3, 0.5, 0.8}) {
      const double t = c.low + part * (c.high - c.low);
      const double at = (t - c.mean) / c.std;
      // 1 - cdf of the upper tail loses its digits; its mirror image does not.
      const double want =
          c.low > c.mean + 3 * c.std
              ? 1 - (cdf(-at) - cdf(-(c.high - c.mean) / c.std)) /
                        (cdf(-(c.low - c.mean) / c.std) - cdf(-(c.high - c.mean) / c.std))
              : (cdf(at) - a) / (b - a);
      const double share = (w < t).to(kF64).mean().item<double>();
      CHECK(std::abs(share - want) < 0.02);
    }
  }
}

TEST_CASE("init: orthogonal_ gives orthonormal rows or columns, with either sign") {
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}, Shape{4, 4}, Shape{6, 2, 2, 2}}) {
    const Tensor w = empty(shape, kF64);
    nn::init::orthogonal_(w, {.gain = 2});
    const Tensor m = w.reshape({shape[0], -1});
    const bool wide = m.dim(0) <= m.dim(1);
    const Tensor product = wide ? matmul(m, m.t()) : matmul(m.t(), m);
    CHECK(max(abs(product - 4 * eye(product.dim(0), kF64))).item<double>() < 1e-13);
  }
  // The first element of a 1x1 matrix is ±1 with equal probability: 30 equal signs have 2^-29.
  double total = 0;
  for (int i = 0; i < 30; ++i) {
    total += nn::init::orthogonal_(empty({1, 1}, kF64)).item<double>();
  }
  CHECK(std::abs(total) < 30);
}

TEST_CASE("init: Skip leaves values and the generator as they are, in its scope alone") {
  const Generator::State before = default_generator().state();
  const Tensor w = full({4, 3}, 7.0);
  {
    const nn::init::Skip skip;
    {
      const nn::init::Skip inner;
      nn::init::kaiming_normal_(w);
    }
    nn::init::xavier_uniform_(w);
    nn::init::trunc_normal_(w);
    nn::init::orthogonal_(w);
    const nn::Linear layer(3, 4);
    CHECK(nn::init::left_open({2, 3}).shape() == Shape{2, 3});
    // Constants are set all the same.
    CHECK(nn::init::ones_(empty({2})).to_vector<double>() == std::vector<double>{1, 1});
    CHECK(nn::BatchNorm2d(2).weight.to_vector<double>() == std::vector<double>{1, 1});
    // Another thread draws.
    const Tensor there = full({4, 3}, 7.0);
    Generator own(1);
    std::thread([&] { nn::init::normal_(there, 0, 1, &own); }).join();
    CHECK(there.to_vector<double>() != std::vector<double>(12, 7.0));
  }
  CHECK(w.to_vector<double>() == std::vector<double>(12, 7.0));
  CHECK(default_generator().state() == before);
  nn::init::normal_(w, 0, 1);
  CHECK(w.to_vector<double>() != std::vector<double>(12, 7.0));
}

TEST_CASE("init: what trunc_normal_ and orthogonal_ refuse") {
  CHECK_THROWS_AS(nn::init::trunc_normal_(zeros(3), {.std = 0}), ValueError);
  CHECK_THROWS_AS(nn::init::trunc_normal_(zeros(3), {.low = 1, .high = 1}), ValueError);
  CHECK_THROWS_AS(nn::init::trunc_normal_(zeros(3), {.low = 100, .high = 101}), ValueError);
  CHECK_THROWS_AS(nn::init::trunc_normal_(zeros({3}, kI64)), DTypeError);
  CHECK_THROWS_AS(nn::init::orthogonal_(zeros(3)), ShapeError);
  CHECK(nn::init::orthogonal_(zeros({0, 3})).numel() == 0);
  CHECK(nn::init::trunc_normal_(zeros({0})).numel() == 0);
}
