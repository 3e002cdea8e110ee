// multinomial: shares, impossible draws, repetition.
#include "lathe/ops/multinomial.h"

#include <limits>
#include <set>

#include "compare.h"
#include "lathe/ops/counting.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

TEST_CASE("multinomial: with replacement classes come in proportion to their weights") {
  manual_seed(27);
  constexpr int64_t kDraws = 20000;
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16}) {
      const Tensor weights =
          tensor({{0.0, 2.0, 1.0, 0.0, 5.0}, {1.0, 0.0, 0.0, 0.0, 0.0}}, kF64).to(dtype);
      const Tensor drawn = multinomial(weights.to(device), kDraws, {.replacement = true});
      CHECK(drawn.dtype() == kI64);
      CHECK(drawn.shape() == Shape{2, kDraws});
      const std::vector<int64_t> counts =
          bincount(drawn[0], {.min_length = 5}).to_vector<int64_t>();
      CHECK(counts[0] + counts[3] == 0);
      // Five standard deviations of a binomial count.
      const double weight[] = {0, 0.25, 0.125, 0, 0.625};
      for (const int c : {1, 2, 4}) {
        const double want = kDraws * weight[c];
        const double spread = 5 * std::sqrt(want * (1 - weight[c]));
        CHECK(std::fabs(static_cast<double>(counts[static_cast<size_t>(c)]) - want) < spread);
      }
      CHECK(max(drawn[1]).item<int64_t>() == 0);
    }
  }
}

TEST_CASE("multinomial: without replacement classes differ, and heavy ones come first") {
  manual_seed(28);
  for (const Device device : devices()) {
    const Tensor weights = tensor({1.0, 0.0, 3.0, 0.0, 4.0}, kF64).expand({6000, 5}).to(device);
    const Tensor drawn = multinomial(weights, 3);
    CHECK(drawn.shape() == Shape{6000, 3});
    const std::vector<int64_t> numbers = drawn.to_vector<int64_t>();
    int64_t first_is_last = 0, second_after = 0;
    for (size_t i = 0; i < numbers.size(); i += 3) {
      const std::set<int64_t> row(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                                  numbers.begin() + static_cast<std::ptrdiff_t>(i) + 3);
      REQUIRE(row == std::set<int64_t>{0, 2, 4});
      first_is_last += numbers[i] == 4;
      second_after += numbers[i] == 4 && numbers[i + 1] == 2;
    }
    // 4 of 8 weights, then 3 of the remaining 4; five standard deviations.
    CHECK(std::fabs(static_cast<double>(first_is_last) - 3000) < 5 * std::sqrt(1500.0));
    CHECK(std::fabs(static_cast<double>(second_after) - 2250) < 5 * std::sqrt(1406.0));
  }
}

TEST_CASE("multinomial: the generator decides, on every device alike") {
  const Tensor weights = tensor({0.25, 0.5, 1.0, 2.0}, kF64);
  for (const bool replacement : {false, true}) {
    std::vector<std::vector<int64_t>> draws;
    for (const Device device : devices()) {
      for (int i = 0; i < 2; ++i) {
        Generator generator(5);
        draws.push_back(multinomial(weights.to(device), 4, {.replacement = replacement}, &generator)
                            .to_vector<int64_t>());
      }
    }
    for (const auto& draw : draws) CHECK(draw == draws[0]);
  }
  CHECK(multinomial(weights, 0).shape() == Shape{0});
  CHECK(multinomial(zeros({0, 3}), 2).shape() == Shape{0, 2});
  CHECK(multinomial(weights, 4).shape() == Shape{4});
}

TEST_CASE("multinomial: errors name the weights") {
  CHECK_THROWS_WITH_AS(multinomial(tensor({1.0, -1.0}, kF64), 1),
                       Contains("multinomial: element 1 is negative or not finite"), ValueError);
  CHECK_THROWS_AS(multinomial(tensor({1.0, std::numeric_limits<double>::infinity()}, kF64), 1),
                  ValueError);
  CHECK_THROWS_AS(multinomial(tensor({1.0, std::nan("")}, kF64), 1), ValueError);
  CHECK_THROWS_WITH_AS(multinomial(tensor({{1.0, 1.0}, {0.0, 0.0}}, kF64), 1),
                       Contains("a row has no positive weight"), ValueError);
  CHECK_THROWS_WITH_AS(multinomial(tensor({1.0, 0.0, 2.0}, kF64), 3),
                       Contains("3 draws without replacement from a row with 2 positive weights"),
                       ValueError);
  CHECK_THROWS_AS(multinomial(zeros({0}), 1), ValueError);
  CHECK_THROWS_AS(multinomial(tensor({1.0}, kF64), -1), ValueError);
  CHECK_THROWS_AS(multinomial(tensor({1}), 1), DTypeError);
  CHECK_THROWS_AS(multinomial(ones({1, 1, 1}), 1), ShapeError);
}
