#include "lathe/data/images/random_points.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/data/batch.h"

namespace lathe::data {
namespace {

using testing::message_of;

/// 10 clouds of 8 points {100 i + k, -(100 i + k)}, labels k of the points, a class each.
TensorDataset clouds() {
  const Tensor x = empty({10, 8, 2}), parts = empty({10, 8}, {.dtype = kI64}),
               y = empty({10}, {.dtype = kI64});
  for (int64_t i = 0; i < 10; ++i) {
    y.data<int64_t>()[i] = i;
    for (int64_t k = 0; k < 8; ++k) {
      x.data<float>()[(i * 8 + k) * 2] = static_cast<float>(100 * i + k);
      x.data<float>()[(i * 8 + k) * 2 + 1] = -static_cast<float>(100 * i + k);
      parts.data<int64_t>()[i * 8 + k] = k;
    }
  }
  return TensorDataset(Tensors{x, y, parts});
}

TEST_CASE("random points: different rows of the sample, the same for the same key") {
  const TensorDataset all = clouds();
  const RandomPoints some(all, {.points = 5, .fields = {0, 2}});
  const std::vector<int64_t> indices = {9, 3, 0};
  const Batch batch = read_batch(some, indices, 1, 2);
  CHECK(batch.x.shape() == Shape{3, 5, 2});
  CHECK(batch.more[0].shape() == Shape{3, 5});
  CHECK(batch.y.to_vector<int64_t>() == std::vector<int64_t>{9, 3, 0});
  const auto x = batch.x.to_vector<double>();
  const auto parts = batch.more[0].to_vector<int64_t>();
  for (size_t n = 0; n < 3; ++n) {
    std::set<int64_t> rows;
    for (size_t k = 0; k < 5; ++k) {
      const auto value = static_cast<double>(100 * indices[n] + parts[n * 5 + k]);
      CHECK(x[(n * 5 + k) * 2] == value);  // points and their labels go together
      CHECK(x[(n * 5 + k) * 2 + 1] == -value);
      rows.insert(parts[n * 5 + k]);
    }
    CHECK(rows.size() == 5);
  }
  const std::vector<int64_t> last = {0};
  const auto alone = read_batch(some, last, 1, 2).x.to_vector<double>();
  CHECK(std::equal(alone.begin(), alone.end(), x.end() - 10));
  CHECK(read_batch(some, indices, 1, 3).x.to_vector<double>() != x);
  CHECK(read_batch(some, indices, 2, 2).x.to_vector<double>() != x);
}

TEST_CASE("random points: every choice is equally likely") {
  const TensorDataset all = clouds();
  const RandomPoints some(all, {.points = 3, .fields = {2}});
  std::map<std::vector<int64_t>, int> seen;
  const std::vector<int64_t> one = {4};
  for (int64_t epoch = 0; epoch < 6720; ++epoch)
    seen[read_batch(some, one, 1, epoch).more[0].to_vector<int64_t>()]++;
  CHECK(seen.size() == 336);  // 8 * 7 * 6 choices in order; 20 of each expected
  double chi_squared = 0;
  for (const auto& [choice, count] : seen) chi_squared += (count - 20) * (count - 20) / 20.0;
  CHECK(std::abs(chi_squared - 335) < 5 * std::sqrt(2 * 335.0));
}

TEST_CASE("random points: what cannot be is refused with the values") {
  const TensorDataset all = clouds();
  CHECK(message_of<ValueError>([&] { RandomPoints(all, {.points = 9}); }) ==
        "RandomPoints: points must be from 1 to 8, the points of a sample, got 9");
  CHECK(message_of<ShapeError>([&] { RandomPoints(all, {.points = 2, .fields = {1}}); }) ==
        "RandomPoints: field 1 (y) is one number, not points");
  CHECK_THROWS_AS(RandomPoints(all, {.points = 2, .fields = {3}}), IndexError);
  CHECK_THROWS_AS(RandomPoints(all, {.points = 0}), ValueError);
}

}  // namespace
}  // namespace lathe::data
