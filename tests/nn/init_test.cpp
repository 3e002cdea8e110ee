// init::trunc_normal_, orthogonal_, dirac_ and whitening_ against their definitions.
#include "lathe/nn/init.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "lathe/core/random/generator.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
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

TEST_CASE("init: filters of dirac_ pass channels on, and leave others as they are") {
  Generator generator(12);
  for (const bool nhwc : {false, true}) {
    const Tensor w = randn({6, 4, 3, 3}, {.dtype = kF64}, &generator)
                         .contiguous(nhwc ? kChannelsLast : kContiguous);
    const Tensor others = w.narrow(0, 4, 2).clone();
    nn::init::dirac_(w.narrow(0, 0, 4));
    CHECK(w.narrow(0, 4, 2).to_vector<double>() == others.to_vector<double>());
    const Tensor x = randn({2, 4, 5, 7}, {.dtype = kF64}, &generator);
    CHECK(conv2d(x, w, {.pad = 1}).narrow(1, 0, 4).to_vector<double>() == x.to_vector<double>());
  }
  // torch.nn.init.dirac_ of a [3,2,2] and of a [1,2,4].
  CHECK(nn::init::dirac_(ones({3, 2, 2})).to_vector<float>() ==
        std::vector<float>{0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  CHECK(nn::init::dirac_(ones({1, 2, 4})).to_vector<float>() ==
        std::vector<float>{0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(nn::init::dirac_(ones({2, 2, 0})).numel() == 0);
  CHECK_THROWS_AS(nn::init::dirac_(ones({2, 2})), ShapeError);
}

TEST_CASE("init: filters of whitening_ give uncorrelated results of equal mean square") {
  Generator generator(13);
  // Neighbours and channels of these images are correlated.
  const Tensor noise = randn({50, 2, 9, 8}, {.dtype = kF64}, &generator);
  const Tensor images =
      conv2d(noise, randn({2, 2, 3, 3}, {.dtype = kF64}, &generator), {.pad = 1}) + 0.3;
  const auto moments_of = [&](const Tensor& w, int64_t filters) {
    const Tensor y = transpose(conv2d(images, w), 0, 1).reshape({filters, -1});
    return matmul(y, y.t()) / static_cast<double>(y.dim(1));
  };
  const Tensor w = nn::init::whitening_(empty({24, 2, 2, 3}, kF64), images, {.eps = 0});
  const Tensor one = eye(12, kF64);
  const Tensor want = cat({cat({one, -one}, 1), cat({-one, one}, 1)}, 0);
  CHECK(max(abs(moments_of(w, 24) - want)).item<double>() < 1e-10);

  // With eps the mean squares are v / (v + eps), for falling eigenvalues v.
  const double eps = 0.5;
  const Tensor damped = nn::init::whitening_(empty({24, 2, 2, 3}, kF64), images, {.eps = eps});
  const Tensor got = moments_of(damped, 24).narrow(0, 0, 12).narrow(1, 0, 12);
  double before = 1;
  for (int64_t i = 0; i < 12; ++i) {
    // e_i has length 1, so 1 / |filter|² is v + eps.
    const double root = square(damped[i]).sum().item<double>();
    const double v = 1 / root - eps, part = v / (v + eps);
    CHECK(std::abs(got[i][i].item<double>() - part) < 1e-10);
    CHECK(part <= before);
    before = part;
  }
  CHECK(max(abs(got - got * one)).item<double>() < 1e-10);
  // Images in f32 and NHWC, filters in f32: the same values but for rounding and signs.
  const Tensor f32 = nn::init::whitening_(empty({24, 2, 2, 3}),
                                          images.to(kF32).contiguous(kChannelsLast), {.eps = eps});
  CHECK(max(abs(abs(f32.to(kF64)) - abs(damped))).item<double>() < 1e-5);

  CHECK_THROWS_AS(nn::init::whitening_(empty({12, 2, 2, 3}), images), ShapeError);
  CHECK_THROWS_AS(nn::init::whitening_(empty({24, 3, 2, 2}), images), ShapeError);
  CHECK_THROWS_AS(nn::init::whitening_(empty({24, 2, 2, 3}), images.narrow(0, 0, 0)), ValueError);
  CHECK_THROWS_AS(nn::init::whitening_(empty({40, 2, 10, 1}), images), ValueError);
  CHECK_THROWS_AS(nn::init::whitening_(empty({24, 2, 2, 3}), images, {.eps = -1}), ValueError);
  CHECK_THROWS_AS(nn::init::whitening_(empty({24, 2, 2, 3}), images.to(kI64)), DTypeError);
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
