// Shapes: counts and strides with overflow checks, broadcasting, dimension numbers.
#include "lathe/core/shape.h"

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("shape: counts, strides and their limits") {
  CHECK(numel_of({}) == 1);
  CHECK(numel_of({2, 0, 3}) == 0);
  CHECK(numel_of({2, 3, 4}) == 24);
  CHECK(numel_of({INT64_MAX / 8}) == INT64_MAX / 8);  // 8-byte elements are still countable
  CHECK_THROWS_WITH_AS(numel_of({INT64_MAX / 8 + 1}),
                       doctest::Contains("has more elements than 64 bits can count in bytes"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(numel_of({2, -1}), doctest::Contains("negative size -1 in [2,-1]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(numel_of({int64_t{1} << 32, int64_t{1} << 32}),
                       doctest::Contains("[4294967296,4294967296] has more elements"), ShapeError);
  CHECK_THROWS_WITH_AS(numel_of({int64_t{1} << 62}), doctest::Contains("has more elements"),
                       ShapeError);  // bytes beyond 63 bits
  CHECK_THROWS_WITH_AS(numel_of({int64_t{1} << 62, 0}), doctest::Contains("has more elements"),
                       ShapeError);  // also where a size is 0
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
  CHECK(channels_last_strides({2, 3, 4, 5}) == Strides{60, 1, 15, 3});
  CHECK_THROWS_WITH_AS(channels_last_strides({2, 3}),
                       doctest::Contains("expected [N,C,H,W], got [2,3]"), ShapeError);
  CHECK_THROWS_WITH_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}),
                       doctest::Contains("9 dimensions, at most 8"), ShapeError);
}

TEST_CASE("shape: broadcasting aligns right, and sizes are equal or 1") {
  const auto both = [](const Shape& a, const Shape& b) {
    CHECK(broadcast_shapes("test", a, b) == broadcast_shapes("test", b, a));
    return broadcast_shapes("test", a, b);
  };
  CHECK(both({}, {2, 3}) == Shape{2, 3});
  CHECK(both({3}, {2, 1}) == Shape{2, 3});
  CHECK(both({2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(both({0}, {1}) == Shape{0});
  CHECK(both({0}, {3, 0}) == Shape{3, 0});
  CHECK_THROWS_WITH_AS(broadcast_shapes("test", {0}, {2}),
                       doctest::Contains("sizes 0 and 2 at dimension 0"), ShapeError);
  CHECK_THROWS_WITH_AS(
      broadcast_shapes("add", {2, 3}, {2, 4}),
      doctest::Contains(
          "add: shapes [2,3] and [2,4] do not broadcast: sizes 3 and 4 at dimension 1"),
      ShapeError);
}

TEST_CASE("shape: dimensions count from the end too, each at most once") {
  CHECK(wrap_dim("test", -1, 3) == 2);
  CHECK(wrap_dim("test", 2, 3) == 2);
  CHECK(wrap_dim("test", 0, 0) == 0);  // 0-d takes 0 and -1
  CHECK(wrap_dim("test", -1, 0) == 0);
  for (const int64_t dim : {3, -4})
    CHECK_THROWS_WITH_AS(wrap_dim("test", dim, 3), doctest::Contains("is outside [-3,2]"),
                         IndexError);
  CHECK_THROWS_WITH_AS(wrap_dim("sum", 1, 0),
                       doctest::Contains("sum: dimension 1 is outside [-1,0]"), IndexError);
  CHECK(dim_mask("test", {0, -1}, 3) == 0b101);
  CHECK(dim_mask("test", {}, 3) == 0b111);
  CHECK_THROWS_WITH_AS(dim_mask("sum", {1, -2}, 3), doctest::Contains("given twice in [1,-2]"),
                       IndexError);
}
