#include "lathe/data/transforms/mix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"

namespace lathe::data {
namespace {

using testing::message_of;

const std::vector<int64_t> kClasses = {3, 1, 4, 1, 5};

Tensor classes() {
  const Tensor y = empty({5}, {.dtype = kI64});
  std::copy(kClasses.begin(), kClasses.end(), y.data<int64_t>());
  return y;
}

TEST_CASE("mixup: every sample is lambda of itself and the rest of its partner") {
  const Tensor x = randn({5, 2, 3});
  for (int64_t batch = 0; batch < 20; ++batch) {
    const Mixed mixed = mixup(x, classes(), 0.4, {1, 2, batch});
    CHECK(mixed.lambda >= 0);
    CHECK(mixed.lambda <= 1);
    CHECK(mixed.y.to_vector<int64_t>() == kClasses);
    CHECK(mixed.partner_y.to_vector<int64_t>() == std::vector<int64_t>{5, 3, 1, 4, 1});
    const auto in = x.to_vector<double>(), out = mixed.x.to_vector<double>();
    for (size_t k = 0; k < out.size(); ++k) {
      const size_t partner = (k + 24) % 30;  // a sample has 6 numbers
      CHECK(out[k] ==
            doctest::Approx(mixed.lambda * in[k] + (1 - mixed.lambda) * in[partner]).epsilon(1e-5));
    }
    CHECK(mixup(x, classes(), 0.4, {1, 2, batch}).lambda == mixed.lambda);
    CHECK(mixup(x, classes(), 0.4, {1, 3, batch}).lambda != mixed.lambda);
  }
  const Tensor one = x.narrow(0, 0, 1);
  const auto alone = mixup(one, classes().narrow(0, 0, 1), 1, {}).x.to_vector<double>();
  for (size_t k = 0; k < 6; ++k)
    CHECK(alone[k] == doctest::Approx(one.to_vector<double>()[k]).epsilon(1e-6));
}

TEST_CASE("cutmix: a rectangle of the partner, and lambda is what is left") {
  const int64_t height = 12, width = 9;
  for (const DType dtype : {kU8, kF32}) {
    // Sample n is filled with n + 1.
    Tensor x = empty({5, 2, height, width}, {.dtype = kF32});
    for (int64_t k = 0; k < x.numel(); ++k)
      x.data<float>()[k] = static_cast<float>(k / (2 * height * width) + 1);
    std::set<int64_t> areas;
    for (int64_t batch = 0; batch < 60; ++batch) {
      const Mixed mixed = cutmix(cast(x, dtype), classes(), 1.0, {1, 0, batch});
      CHECK(mixed.x.dtype() == dtype);
      CHECK(mixed.partner_y.to_vector<int64_t>() == std::vector<int64_t>{5, 3, 1, 4, 1});
      const auto out = mixed.x.to_vector<double>();
      int64_t replaced = 0, top = height, bottom = 0, left = width, right = 0;
      for (int64_t r = 0; r < height; ++r)
        for (int64_t k = 0; k < width; ++k) {
          const bool partner = out[static_cast<size_t>(r * width + k)] != 1;
          for (int64_t plane = 0; plane < 10; ++plane) {
            const int64_t n = plane / 2;
            const double want = static_cast<double>(partner ? (n + 4) % 5 + 1 : n + 1);
            CHECK(out[static_cast<size_t>((plane * height + r) * width + k)] == want);
          }
          if (!partner) continue;
          ++replaced;
          top = std::min(top, r);
          bottom = std::max(bottom, r + 1);
          left = std::min(left, k);
          right = std::max(right, k + 1);
        }
      if (replaced > 0) CHECK(replaced == (bottom - top) * (right - left));
      CHECK(mixed.lambda == 1 - static_cast<double>(replaced) / (height * width));
      areas.insert(replaced);
    }
    CHECK(areas.size() > 10);
  }
}

TEST_CASE("cutmix: the sides are the square root of 1 - lambda of the image's") {
  const int64_t height = 40, width = 100;
  Tensor x = empty({2, 1, height, width}, {.dtype = kF32});
  for (int64_t k = 0; k < x.numel(); ++k)
    x.data<float>()[k] = static_cast<float>(k / (height * width));
  int inside = 0;
  for (int64_t batch = 0; batch < 60; ++batch) {
    const Key key{1, 0, batch};
    Random random = key.random(kMixStream);  // lambda is drawn first, then the centre
    const double half = 0.5 * std::sqrt(1 - draw_beta(1.0, random));
    const auto row = static_cast<int64_t>(random.below(static_cast<uint64_t>(height)));
    const auto column = static_cast<int64_t>(random.below(static_cast<uint64_t>(width)));
    const auto rows = static_cast<int64_t>(half * height);
    const auto columns = static_cast<int64_t>(half * width);
    if (row < rows || row + rows > height || column < columns || column + columns > width) continue;
    ++inside;
    const auto out = cutmix(x, classes().narrow(0, 0, 2), 1.0, key).x.to_vector<float>();
    for (int64_t k = 0; k < height * width; ++k) {
      const int64_t r = k / width, c = k % width;
      const bool partner =
          row - rows <= r && r < row + rows && column - columns <= c && c < column + columns;
      if ((out[static_cast<size_t>(k)] == 1) != partner)
        FAIL("pixel ", r, ",", c, " of batch ", batch);
    }
  }
  CHECK(inside > 5);
}

TEST_CASE("mix: lambda is Beta distributed") {
  for (const double alpha : {0.1, 0.5, 1.0, 3.0}) {
    const int draws = 20'000;
    double sum = 0, squares = 0;
    int below_quarter = 0;
    for (int64_t i = 0; i < draws; ++i) {
      Random random = Key{7, 0, i}.random(3);
      const double lambda = draw_beta(alpha, random);
      CHECK(lambda >= 0);
      CHECK(lambda <= 1);
      sum += lambda;
      squares += (lambda - 0.5) * (lambda - 0.5);
      below_quarter += lambda < 0.25;
    }
    CHECK(std::abs(sum / draws - 0.5) < 0.015);
    // 5 standard deviations of the mean of squares, which lie in [0, 1/4]
    CHECK(std::abs(squares / draws - 1 / (4 * (2 * alpha + 1))) < 0.0045);
    if (alpha == 1) CHECK(std::abs(below_quarter - draws / 4) < 310);
    if (alpha == 0.5) CHECK(std::abs(below_quarter - draws / 3) < 340);  // the arcsine law
  }
}

TEST_CASE("mix: what cannot be is refused with the values") {
  const Tensor x = randn({5, 2, 3});
  CHECK(message_of<ValueError>([&] { mixup(x, classes(), 0, {}); }) ==
        "mixup: alpha must be positive and finite, got 0");
  CHECK_THROWS_AS(mixup(x.narrow(0, 0, 4), classes(), 1, {}), ShapeError);
  CHECK_THROWS_AS(mixup(cast(x, kU8), classes(), 1, {}), DTypeError);
  CHECK_THROWS_AS(cutmix(x, classes(), 1, {}), ShapeError);
}

}  // namespace
}  // namespace lathe::data
