// Assignment 1: strides and views.
#include "tiny/views.h"

#include "numbers.h"

using namespace course;
using namespace tiny;

/// The places that for_each_offset() visits, one after the other.
static std::vector<int64_t> walk(const Shape& shape, const Strides& a, const Strides& b) {
  std::vector<int64_t> places;
  for_each_offset<2>(shape, {a, b}, [&](const std::array<int64_t, 2>& at) {
    places.push_back(at[0]);
    places.push_back(at[1]);
  });
  return places;
}

int main() {
  Report report;
  report.test(3, "strides are row-major", [] {
    expect_equal("strides of [5]", contiguous_strides({5}), {1});
    expect_equal("strides of [2,3]", contiguous_strides({2, 3}), {3, 1});
    expect_equal("strides of [2,3,4,5]", contiguous_strides({2, 3, 4, 5}), {60, 20, 5, 1});
    expect_equal("strides of []", contiguous_strides({}), {});
  });
  report.test(4, "a walk visits every element once, the last dimension fastest", [] {
    expect_equal("[2,2] and its transpose", walk({2, 2}, {2, 1}, {1, 2}), {0, 0, 1, 2, 2, 1, 3, 3});
    expect_equal("[2,1,3]", walk({2, 1, 3}, {3, 9, 1}, {0, 0, 5}),
                 {0, 0, 1, 5, 2, 10, 3, 0, 4, 5, 5, 10});
    expect_equal("a scalar", walk({}, {}, {}), {0, 0});
    expect_equal("no element", walk({2, 0}, {1, 1}, {1, 1}), {});
  });
  report.test(4, "a transpose swaps sizes and strides", [] {
    const Tensor x = made_up({2, 3, 4}, 1), y = transpose(x, 0, 2);
    expect_equal("shape", y.shape(), {4, 3, 2});
    expect_equal("strides", y.strides(), {1, 4, 12});
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < 2; ++k)
          expect_equal("an element", values(y)[(i * 3 + j) * 2 + k],
                       values(x)[(k * 3 + j) * 4 + i]);
  });
  report.test(2, "a view shares memory: what is written through it is seen in the whole", [] {
    const Tensor x({2, 3}, {0, 1, 2, 3, 4, 5});
    Tensor y = transpose(x), z = slice(x, 1, 1, 2);
    y.data()[y.strides()[1]] = 30;
    z.data()[0] = 10;
    expect_close("x", values(x), {0, 10, 2, 30, 4, 5});
  });
  report.test(4, "a slice begins where its first index is", [] {
    const Tensor x({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    expect_equal("rows 1 to 2, shape", slice(x, 0, 1, 3).shape(), {2, 4});
    expect_close("rows 1 to 2", values(slice(x, 0, 1, 3)), {4, 5, 6, 7, 8, 9, 10, 11});
    expect_close("columns 1 to 2", values(slice(x, 1, 1, 3)), {1, 2, 5, 6, 9, 10});
    expect_equal("no column, shape", slice(x, 1, 4, 4).shape(), {3, 0});
  });
  report.test(2, "a view of a view begins where the first one does", [] {
    const Tensor x({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    expect_close("a slice, transposed", values(transpose(slice(x, 0, 1, 3))),
                 {4, 8, 5, 9, 6, 10, 7, 11});
    expect_close("a slice of a slice", values(slice(slice(x, 0, 1, 3), 1, 2, 4)), {6, 7, 10, 11});
  });
  report.test(1, "a slice that is not there is an error", [] {
    const Tensor x({3, 4});
    expect_throws<ShapeError>("rows 2 to 3 of 3", [&] { slice(x, 0, 2, 4); });
    expect_throws<ShapeError>("from -1 on", [&] { slice(x, 0, -1, 2); });
    expect_throws<ShapeError>("from 2 to 1", [&] { slice(x, 0, 2, 1); });
    expect_throws<ShapeError>("dimension 2 of 2", [&] { slice(x, 2, 0, 1); });
  });
  return report.done();
}
