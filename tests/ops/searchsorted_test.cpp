// searchsorted and bucketize against std::lower_bound and std::upper_bound.
#include "lathe/ops/searchsorted.h"

#include <algorithm>
#include <limits>

#include "compare.h"
#include "lathe/ops/sort.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> reference(const Tensor& sorted, const Tensor& values, bool right) {
  const std::vector<double> table = sorted.to_vector<double>(), v = values.to_vector<double>();
  const size_t n = static_cast<size_t>(sorted.dim(-1));
  const size_t m = sorted.ndim() == 1 ? v.size() : static_cast<size_t>(values.dim(-1));
  std::vector<double> places;
  for (size_t i = 0; i < v.size(); ++i) {
    const auto begin = table.begin() + static_cast<std::ptrdiff_t>(i / m * n);
    const auto end = begin + static_cast<std::ptrdiff_t>(n);
    const auto at = right ? std::upper_bound(begin, end, v[i]) : std::lower_bound(begin, end, v[i]);
    places.push_back(static_cast<double>(at - begin));
  }
  return places;
}
}  // namespace

TEST_CASE("searchsorted: places are those of the standard library, on every device") {
  manual_seed(13);
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16, kU8, kI32, kI64}) {
      for (const Layout& layout : layouts()) {
        for (const bool right : {false, true}) {
          CAPTURE(concat(layout.name, " ", dtype, " on ", device));
          const auto draw = [&](const Shape& shape) {
            return cast(randint(0, 9, shape), dtype);  // with repetitions
          };
          const Tensor rows = sort(draw({2, 3, 17})).values, values = draw({2, 3, 5});
          const Tensor places =
              searchsorted(layout.apply(rows).to(device), layout.apply(values).to(device), {right});
          CHECK(places.dtype() == kI64);
          CHECK(difference(places.cpu(), reference(rows, values, right), 0) == "");
          const Tensor line = rows[0][0];
          CHECK(difference(searchsorted(line.to(device), values.to(device), {right}).cpu(),
                           reference(line, values, right), 0) == "");
          CHECK(difference(bucketize(values.to(device), line.to(device), {right}).cpu(),
                           reference(line, values, right), 0) == "");
        }
      }
    }
    const Tensor edges = tensor({-1.0, 0.0, 1.0}, kF64).to(device);
    CHECK(difference(bucketize(tensor({-kInf, kInf, kNaN, 0.0}, kF64).to(device), edges).cpu(),
                     {0, 3, 3, 1}, 0) == "");
    CHECK(bucketize(tensor(0.5, kF64).to(device), edges).item<int>() == 2);
    // f32 cannot tell these apart.
    CHECK(difference(searchsorted(tensor<int64_t>({16777216, 16777217}).to(device),
                                  tensor<int64_t>({16777217}).to(device))
                         .cpu(),
                     {1}, 0) == "");
    CHECK(
        difference(bucketize(tensor({1, 2}).to(device), tensor({0.5, 1.5}, kF64).to(device)).cpu(),
                   {1, 2}, 0) == "");
  }
}

TEST_CASE("searchsorted: zero-size") {
  CHECK(searchsorted(zeros({0}), ones({2})).to_vector<int>() == std::vector<int>{0, 0});
  CHECK(searchsorted(zeros({3}), ones({0, 2})).shape() == Shape{0, 2});
  CHECK(searchsorted(zeros({0, 3}), ones({0, 2})).shape() == Shape{0, 2});
  CHECK(searchsorted(zeros({2, 3}), ones({2, 0})).shape() == Shape{2, 0});
}

TEST_CASE("searchsorted: errors name the tensors") {
  CHECK_THROWS_WITH_AS(searchsorted(zeros({2, 3}), zeros({3, 3})),
                       Contains("but for the last size (sorted: f32[2,3]@cpu"), ShapeError);
  CHECK_THROWS_AS(searchsorted(tensor(1.0, kF64), zeros({3})), ShapeError);
  CHECK_THROWS_AS(searchsorted(zeros({2, 3}), zeros({3})), ShapeError);
  CHECK_THROWS_WITH_AS(bucketize(zeros({3}), zeros({2, 3})),
                       Contains("bucketize: boundaries must be [n]"), ShapeError);
}
