// Random tensors: reproducible, in range, with the right moments. The bits are tested in
// tests/core/philox_test.cpp, what is made of them in random_math_test.cpp.
#include "lathe/ops/random.h"

#include <algorithm>

#include "compare.h"
#include "lathe/core/random/philox.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("random: a function of the seed, in range, with the right moments") {
  Generator g(7), h(7);
  const Tensor u = rand({10000}, {}, &g);
  CHECK(u.to_vector<float>() == rand({10000}, {}, &h).to_vector<float>());
  CHECK(u.to_vector<float>() != rand({10000}, {}, &h).to_vector<float>());
  CHECK(u.mean().item<double>() == doctest::Approx(0.5).epsilon(0.02));  // sd of the mean: 0.003
  const std::vector<double> n = randn({20000}, {.dtype = kF64}, &g).to_vector<double>();
  double sum = 0, squares = 0;
  for (const double v : n) sum += v, squares += v * v;
  CHECK(std::fabs(sum / 20000) < 0.03);                        // sd 0.007
  CHECK(squares / 20000 == doctest::Approx(1).epsilon(0.05));  // sd 0.01
  for (const int64_t v : randint(-3, 5, {1000}, {}, &g).to_vector<int64_t>())
    CHECK((v >= -3 && v < 5));
  std::vector<int64_t> p = randperm(100, &g).to_vector<int64_t>();
  CHECK(p != arange(100).to_vector<int64_t>());
  std::sort(p.begin(), p.end());
  CHECK(p == arange(100).to_vector<int64_t>());
  CHECK_THROWS_AS(randint(3, 3, {1}), ValueError);
  CHECK_THROWS_AS(rand({2}, {.dtype = kI32}), DTypeError);
  CHECK_THROWS_AS(bernoulli(tensor({1.5}, kF64)), ValueError);
  CHECK(bernoulli(tensor({0.0, 1.0}, kF64)).to_vector<int>() == std::vector<int>{0, 1});
}

TEST_CASE("randint: narrow spans take one word each, wide ones two that no other value shares") {
  const auto word = [](uint64_t i) { return uint64_t{philox4x32_10(7, 5 + i / 4, 0).v[i % 4]}; };
  Generator g(7);
  g.set_state({7, 5});
  const auto narrow = randint(-9, int64_t{UINT32_MAX} - 9, {7}, {}, &g).to_vector<int64_t>();
  CHECK(g.state().offset == 5 + 2);
  g.set_state({7, 5});
  const auto wide = randint(INT64_MIN, INT64_MAX, {7}, {}, &g).to_vector<int64_t>();
  CHECK(g.state().offset == 5 + 4);
  for (uint64_t i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(narrow[i] == static_cast<int64_t>(word(i) % UINT32_MAX) - 9);
    const uint64_t bits = word(2 * i) | word(2 * i + 1) << 32;
    CHECK(static_cast<uint64_t>(wide[i]) == bits % UINT64_MAX + (uint64_t{1} << 63));
  }
}

TEST_CASE("random: forms in place and after another tensor draw the same numbers") {
  const Tensor like = zeros({3, 4}, {.dtype = kF64}).transpose(0, 1);
  Generator g(7), h(7);
  const Tensor u = rand({4, 3}, {.dtype = kF64}, &g), n = randn({4, 3}, {.dtype = kF64}, &g);
  CHECK(difference(rand_like(like, &h), u, 0).empty());
  CHECK(difference(randn_like(like, &h), n, 0).empty());
  const Tensor room = zeros({4, 6}, {.dtype = kF64}), part = room.slice(1, 0, 6, 2);
  CHECK(uniform_(part, -2, 3, &g).is_same(part));
  CHECK(difference(part, rand({4, 3}, {.dtype = kF64}, &h) * 5 - 2, 1e-15).empty());
  normal_(part, 10, 0.5, &g);
  CHECK(difference(part, randn({4, 3}, {.dtype = kF64}, &h) * 0.5 + 10, 1e-15).empty());
  CHECK(sum(room.slice(1, 1, 6, 2)).item<double>() == 0);  // nothing was written beside it
}

TEST_CASE("uniform_, normal_: what a tensor was before they fill it has no gradient") {
  for (const bool normal : {false, true}) {
    const Tensor x = ones({2, 3}, {.dtype = kF64, .requires_grad = true});
    const Tensor y = x * 2, row = y[0];
    Generator g(7), h(7);
    normal ? normal_(row, 1, 2, &g) : uniform_(row, 1, 2, &g);
    const Tensor drawn =
        normal ? randn({3}, {.dtype = kF64}, &h) * 2 + 1 : rand({3}, {.dtype = kF64}, &h) + 1;
    CHECK(difference(y[0], drawn, 1e-15).empty());
    sum(y * 3).backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, 0, 6, 6, 6});
  }
}

TEST_CASE("rand: half types stay below 1") {
  for (const DType dtype : {kF16, kBF16}) {
    const Tensor u = rand({100000}, {.dtype = dtype});
    CHECK(u.max().item<float>() < 1.f);
    CHECK(u.mean().item<float>() == doctest::Approx(0.5).epsilon(0.02));
  }
  const Tensor x = empty({200000});
  uniform_(x, 1, 2);
  CHECK(x.max().item<float>() < 2.f);
}
