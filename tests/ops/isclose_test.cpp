// isclose, allclose and equal. The numbers are PyTorch's (1.13).
#include "lathe/ops/isclose.h"

#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("isclose: tolerances, infinities and NaN, on every device") {
  const Tensor a = tensor({1.0, 1.0, kInf, kInf, kNaN, kInf, 0.0, 100.0}, kF64);
  const Tensor b = tensor({1.0 + 1e-6, 1.0 + 1e-4, kInf, -kInf, kNaN, 1.0, 1e-9, 100.0009}, kF64);
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      const Tensor p = layout.apply(a.view({2, 4})).to(device);
      const Tensor q = layout.apply(b.view({2, 4})).to(device);
      CHECK(isclose(p, q).dtype() == kBool);
      CHECK(difference(isclose(p, q).cpu(), {1, 0, 1, 0, 0, 0, 1, 1}, 0) == "");
      CHECK(difference(isclose(p, q, {.equal_nan = true}).cpu(), {1, 0, 1, 0, 1, 0, 1, 1}, 0) ==
            "");
      CHECK(difference(isclose(q, p, {.rtol = 0, .atol = 1e-3}).cpu(), {1, 1, 1, 0, 0, 0, 1, 1},
                       0) == "");
      CHECK(!allclose(p, q));
      CHECK(allclose(p, p, {.equal_nan = true}));
      CHECK(!allclose(p, p));
    }
    const Tensor one = ones({2, 3}, {.device = device});
    CHECK(allclose(one, ones({3}, {.device = device})));
    CHECK(equal(one, one.t().contiguous().t()));
    CHECK(!equal(one, ones({3}, {.device = device})));
    CHECK(!equal(one, one * 2));
    CHECK(!equal(full({1}, kNaN, {.device = device}), full({1}, kNaN, {.device = device})));
    CHECK(equal(zeros({0, 2}, {.device = device}), zeros({0, 2}, {.device = device})));
    CHECK(allclose(zeros({0}, {.device = device}), zeros({0}, {.device = device})));
  }
}

TEST_CASE("isclose: integers, half types and bool") {
  // A double does not hold these two apart; equality is decided before.
  const Tensor large = tensor<int64_t>({(int64_t{1} << 53) + 1, 7, -7});
  const Tensor near = tensor<int64_t>({(int64_t{1} << 53) + 1, 8, -7});
  CHECK(isclose(large, near).to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK(isclose(large, near, {.atol = 1}).to_vector<int>() == std::vector<int>{1, 1, 1});
  CHECK(isclose(tensor({true, false}), tensor({true, true})).to_vector<int>() ==
        std::vector<int>{1, 0});
  const Tensor half = full({1}, 60000.0, {.dtype = kF16});
  CHECK(!allclose(half, mul(half, -1)));  // the difference is beyond f16
  CHECK(isclose(tensor(1.0, kF64), tensor(1.0, kF64)).ndim() == 0);
}

TEST_CASE("isclose: errors name the op and the tensors") {
  CHECK_THROWS_WITH_AS(
      isclose(zeros({2}), zeros({2}, {.dtype = kF64})),
      Contains("isclose: a and b must have one dtype (a: f32[2]@cpu, b: f64[2]@cpu)"), DTypeError);
  CHECK_THROWS_AS(equal(zeros({2}), zeros({2}, {.dtype = kF64})), DTypeError);
  CHECK_THROWS_AS(allclose(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(isclose(zeros({2}), zeros({2}), {.rtol = -1}), ValueError);
  CHECK_THROWS_AS(isclose(zeros({2}), zeros({2}), {.atol = kNaN}), ValueError);
}
