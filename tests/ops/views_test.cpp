// Views: shapes and strides over shared storage, and what they refuse.
#include "lathe/ops/views.h"

#include <cstdint>
#include <vector>

#include "compare.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using doctest::Contains;

TEST_CASE("slice: without a stop to the end") {
  const Tensor x = arange(6).view({2, 3});
  CHECK(x.slice(1, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 2, 4, 5});
  CHECK(slice(x, 1, -1).to_vector<int64_t>() == std::vector<int64_t>{2, 5});
}

TEST_CASE("views: share storage, and refuse what strides cannot show") {
  const Tensor x = arange(24).reshape({2, 3, 4});
  const Tensor v = x.select(0, 1).slice(1, 0, 4, 2).transpose(0, 1);
  CHECK(v.to_vector<int>() == std::vector<int>{12, 16, 20, 14, 18, 22});
  v.zero_();
  CHECK(x.sum().item<int>() == 276 - (12 + 16 + 20 + 14 + 18 + 22));
  CHECK(x.version() == v.version());
  CHECK(x[1][2].to_vector<int>() == std::vector<int>{0, 21, 0, 23});
  CHECK_THROWS_WITH_AS(x.transpose(0, 2).view({24}), Contains("use reshape"), ShapeError);
  CHECK(x.transpose(0, 2).reshape({24}).numel() == 24);
  CHECK(x.transpose(1, 2).view({2, 2, 2, 3}).shape() == Shape{2, 2, 2, 3});
  CHECK(x.view({-1, 6}).shape() == Shape{4, 6});
  CHECK_THROWS_AS(x.view({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.view({5, -1}), ShapeError);
  CHECK_THROWS_WITH_AS(zeros({0, 3}).view({-1, 0}), Contains("ambiguous"), ShapeError);
  CHECK(zeros({0, 3}).view({3, 0, 7}).numel() == 0);
  CHECK_THROWS_AS(x.select(0, 2), IndexError);
  CHECK_THROWS_AS(x.select(0, -3), IndexError);
  CHECK(arange(3).select(0, -3).item<int>() == 0);
  CHECK(arange(3).select(0, 2).item<int>() == 2);
  CHECK_THROWS_AS(x.narrow(1, 2, 2), IndexError);
  CHECK_THROWS_AS(x.permute({0, 1, 1}), IndexError);
  CHECK_THROWS_AS(x.transpose(0, 3), IndexError);
  CHECK_THROWS_AS(x.expand({2, 3, 5}), ShapeError);
  CHECK(x.slice(2, -3, 100, 2).shape() == Shape{2, 3, 2});
  CHECK(tensor(1.f).unsqueeze(0).shape() == Shape{1});
  CHECK(tensor(1.f).flatten().shape() == Shape{1});
  CHECK(ones({2, 1, 3}).squeeze(1).shape() == Shape{2, 3});
  CHECK(split(x, 2, 1).size() == 2);
  CHECK(split(x, {1, 3}, 2)[1].shape() == Shape{2, 3, 3});
  CHECK(chunk(x, 3, 2).size() == 2);
}

TEST_CASE("views: sizes that overflow are refused or clipped") {
  CHECK_THROWS_AS(as_strided(zeros({4}), {3}, {int64_t{1} << 62}, 0), IndexError);
  CHECK_THROWS_AS(as_strided(zeros({3}), {2}, {1}, 2), IndexError);  // one element too far
  CHECK(as_strided(arange(3), {2}, {1}, 1).to_vector<int>() == std::vector<int>{1, 2});
  CHECK_THROWS_AS(as_strided(zeros({3}), {2}, {1}, -1), IndexError);
  CHECK(slice(arange(5), 0, 0, 5, INT64_MAX).to_vector<int>() == std::vector<int>{0});
  CHECK_THROWS_AS(tensor(1.f).dim(0), IndexError);
  const Tensor x = arange(4);
  constexpr int64_t k32 = int64_t{1} << 32;
  CHECK_THROWS_WITH_AS(view(x, {k32, k32, -1}), Contains("view: the sizes in"), ShapeError);
  CHECK_THROWS_AS(view(x, {k32, k32, 4}), ShapeError);
  CHECK_THROWS_WITH_AS(split(x, {INT64_MAX, INT64_MAX, 6}), Contains("split: the sizes"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(split(x, {5, -1}), Contains("split: negative size -1"), ShapeError);
  CHECK(split(x, INT64_MAX).size() == 1);
  CHECK(chunk(x, INT64_MAX).size() == 4);
}

TEST_CASE("split and chunk: any number of pieces, also of nothing") {
  const Tensor x = arange(20);
  std::vector<int64_t> sizes(10, 2);  // more than a tensor has dimensions
  sizes[3] = 0, sizes[9] = 4;
  const Tensors parts = split(x, sizes);
  REQUIRE(parts.size() == 10);
  CHECK(parts[2].to_vector<int>() == std::vector<int>{4, 5});
  CHECK(parts[3].numel() == 0);
  CHECK(parts[9].to_vector<int>() == std::vector<int>{16, 17, 18, 19});
  sizes[0] = 3;
  CHECK_THROWS_WITH_AS(split(x, sizes),
                       Contains("split: sizes [3,2,2,0,2,2,2,2,2,4] add up to 21, dimension 0 has "
                                "20 (x: i64[20]@cpu)"),
                       ShapeError);
  // [t.shape for t in torch.zeros(0, 2).chunk(3)]; the same of split(0) and split(3)
  for (const Tensor& piece : chunk(zeros({0, 2}), 3)) CHECK(piece.shape() == Shape{0, 2});
  CHECK(chunk(zeros({0, 2}), 3).size() == 3);
  CHECK(chunk(zeros({2, 0}), 3).size() == 2);
  CHECK(split(zeros({0, 2}), 0).size() == 1);
  CHECK(split(zeros({0, 2}), 3).size() == 1);
  CHECK_THROWS_WITH_AS(split(x, 0), Contains("split: size must be positive, got 0"), ValueError);
}

TEST_CASE("t: of a vector or a number that itself") {
  const Tensor x = tensor({{1, 2}, {3, 4}}, kI32);
  CHECK(x.t().to_vector<int>() == std::vector<int>{1, 3, 2, 4});
  CHECK(x[0].t().to_vector<int>() == std::vector<int>{1, 2});
  CHECK(tensor(5, kI32).t().shape() == Shape{});
  CHECK_THROWS_WITH_AS(zeros({2, 3, 4}).t(), Contains("t: expected at most 2 dimensions"),
                       ShapeError);
}
