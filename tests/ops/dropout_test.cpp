// Dropout: which elements go, what happens to the others, reproducibility, gradients, errors.
#include "lathe/ops/dropout.h"

#include <limits>

#include "compare.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("dropout: element i goes if uniform number i is below p") {
  for (const double p : {0.1, 0.5, 0.9}) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor wide = randn({7, 9}, {.dtype = dtype});
      for (const Layout& layout : layouts()) {
        Generator generator(42);
        generator.reserve(3);
        const Tensor x = layout.apply(wide);
        const std::vector<double> v = x.to_vector<double>();
        std::vector<double> want;
        for (size_t i = 0; i < v.size(); ++i) {
          const float u = uniform_from_bits(philox4x32_10(42, 3 + i / 4, 0).v[i % 4]);
          want.push_back(u < static_cast<float>(p) ? 0.0 : v[i] / (1 - p));
        }
        CHECK(difference(dropout(x, {.p = p, .generator = &generator}), want, tolerance_of(dtype))
                  .empty());
        CHECK(generator.state().offset == 3 + 16);
      }
    }
  }
}

TEST_CASE("dropout: an NHWC tensor stays one, loses the same elements, and so does its gradient") {
  const Tensor x = randn({2, 3, 4, 5});
  const Tensor nhwc = x.contiguous(kChannelsLast).requires_grad_();
  Generator a(5), b(5);
  const Tensor y = dropout(nhwc, {.generator = &a});
  CHECK(y.is_contiguous(kChannelsLast));
  CHECK(difference(y, dropout(x, {.generator = &b}), 0) == "");
  y.backward(ones(y.shape()).contiguous(kChannelsLast));
  CHECK(nhwc.grad().is_contiguous(kChannelsLast));
  CHECK(difference(nhwc.grad() * x, y.detach(), 0) == "");
}

TEST_CASE("dropout: p = 0, p = 1, evaluation, nothing") {
  const Tensor x = randn({100});
  CHECK(dropout(x, {.p = 0}).is_same(x));
  CHECK(dropout(x, {.p = 0.7, .train = false}).is_same(x));
  const Tensor infinite = full({100}, std::numeric_limits<double>::infinity());
  CHECK(dropout(infinite, {.p = 1}).to_vector<double>() == std::vector<double>(100, 0.0));
  CHECK(dropout(zeros({0, 3}), {.p = 0.5}).shape() == Shape{0, 3});
  CHECK(dropout(tensor(2.0, kF64), {.p = 1}).item<double>() == 0);
}

TEST_CASE("dropout: the share of zeros is p and the mean stays") {
  manual_seed(13);
  const Tensor y = dropout(ones({200000}), {.p = 0.3});
  const double zeros_share = mean(eq(y, 0).to(kF64)).item<double>();
  CHECK(std::fabs(zeros_share - 0.3) < 0.005);  // 5 standard deviations of sqrt(0.3 * 0.7 / 200000)
  CHECK(std::fabs(mean(y).item<double>() - 1.0) < 0.01);
}

TEST_CASE("dropout: the seed decides, not the number of threads") {
  const Tensor x = randn({50001});
  const int before = num_threads();
  Tensors results;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    manual_seed(14);
    results.push_back(dropout(x));
  }
  set_num_threads(before);
  CHECK(difference(results[1], results[0], 0).empty());
  CHECK_FALSE(difference(dropout(x), results[0], 0).empty());  // the next call draws other numbers
}

TEST_CASE("dropout: gradients agree with finite differences; errors") {
  const auto f = [](const Tensors& in) {
    Generator generator(5);  // the same numbers at every evaluation
    return dropout(in[0], {.p = 0.4, .generator = &generator});
  };
  check_gradients({"dropout", f, {f64({4, 5})}});
  for (const double p : {-0.1, 1.1, std::nan("")})
    CHECK_THROWS_AS(dropout(zeros({2}), {.p = p}), ValueError);
  CHECK_THROWS_WITH_AS(dropout(zeros({2}), {.p = 1.5}),
                       doctest::Contains("dropout: p must be in [0, 1], got 1.5"), ValueError);
  CHECK_THROWS_AS(dropout(zeros({2}, {.dtype = kI64})), DTypeError);
}
