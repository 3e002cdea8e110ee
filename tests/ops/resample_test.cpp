// resample: the gradient's map is the adjoint of the forward map, for every kind of AxisMap.
#include "lathe/ops/resample.h"

#include "compare.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  std::string name;
  AxisMap map;
};
const Case kCases[] = {
    {"windows", average_map(9, {3, 2, 1, 1, false}, true)},
    {"windows, ceil", average_map(8, {3, 2, 1, 1, true}, false)},
    {"windows apart", average_map(9, {2, 4, 0, 1, false}, true)},
    {"adaptive", adaptive_average_map(7, 3)},
    {"adaptive, larger", adaptive_average_map(3, 7)},
    {"nearest up", nearest_map(4, 9, 4.0 / 9)},
    {"nearest down", nearest_map(9, 4, 9.0 / 4)},
    {"linear up", linear_map(4, 9, 4.0 / 9, false)},
    {"linear down", linear_map(9, 2, 9.0 / 2, false)},
    {"nearest middle", nearest_map(9, 4, 9.0 / 4, 0.5)},
    {"cubic up", cubic_map(4, 9, 4.0 / 9, false)},
    {"cubic down", cubic_map(9, 2, 9.0 / 2, false)},
    {"cubic, corners", cubic_map(5, 8, 0, true)},
    {"linear, corners", linear_map(5, 8, 0, true)},
    {"linear, one output", linear_map(5, 1, 5, true)},
};

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }

}  // namespace

TEST_CASE("resample: <map x, y> = <x, adjoint y>") {
  for (const Case& rows : kCases) {
    for (const Case& columns : kCases) {
      CAPTURE(rows.name);
      CAPTURE(columns.name);
      const auto map = std::make_shared<const PlaneMap>(PlaneMap{rows.map, columns.map});
      const auto adjoint =
          std::make_shared<const PlaneMap>(PlaneMap{transposed(rows.map), transposed(columns.map)});
      const Tensor x = f64({2, 3, rows.map.in, columns.map.in});
      const Tensor y = f64({2, 3, rows.map.out(), columns.map.out()});
      const double forward = dot(resample("test", x, map), y);
      const double nhwc = dot(resample("test", x.contiguous(kChannelsLast), map), y);
      CHECK(forward == doctest::Approx(dot(x, resample("test", y, adjoint))).epsilon(1e-12));
      CHECK(nhwc == doctest::Approx(forward).epsilon(1e-12));
    }
  }
}

TEST_CASE("resample: gradients agree with finite differences, twice") {
  const auto map = std::make_shared<const PlaneMap>(PlaneMap{kCases[0].map, kCases[1].map});
  const Tensor x = f64({2, 1, map->rows.in, map->columns.in});
  check_gradients(
      {"resample", [map](const Tensors& in) { return resample("test", in[0], map); }, {x}});
}

TEST_CASE("pooled_size: counts the windows") {
  CHECK(pooled_size(224, {3, 2, 1, 1, false}) == 112);
  CHECK(pooled_size(5, {2, 2, 0, 1, false}) == 2);
  CHECK(pooled_size(5, {2, 2, 0, 1, true}) == 3);
  CHECK(pooled_size(4, {1, 3, 0, 1, true}) == 2);
  CHECK(pooled_size(2, {2, 2, 1, 1, true}) ==
        2);  // a third window would start in the right padding
  CHECK(pooled_size(5, {2, INT64_MAX, 0, 1, true}) == 1);
  CHECK(pooled_size(4, {INT64_MAX, 1, 0, INT64_MAX, false}) == 0);
  CHECK(pooled_size(4, {INT64_MAX, 1, INT64_MAX / 2, 1, true}) == 4);
  CHECK(average_map(4, {INT64_MAX, 1, INT64_MAX / 2, 1, true}, false).weight.size() == 16);
  CHECK(pooled_size(2, {4, 1, 0, 1, true}) == 0);
}

TEST_CASE("axis maps: those that no memory holds are typed errors") {
  CHECK_THROWS_AS(adaptive_average_map(1, INT64_MAX), OutOfMemoryError);
  CHECK_THROWS_AS(adaptive_average_map(int64_t{1} << 60, 1), OutOfMemoryError);
  CHECK_THROWS_AS(nearest_map(1, int64_t{1} << 50, 1), OutOfMemoryError);
  CHECK_THROWS_AS(linear_map(1, int64_t{1} << 50, 1, false), OutOfMemoryError);
}
