// Assignment 2: broadcasting and its gradient.
#include "tiny/broadcast.h"

#include "numbers.h"

using namespace course;
using namespace tiny;

static double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < values(a).size(); ++i) sum += values(a)[i] * values(b)[i];
  return sum;
}

int main() {
  Report report;
  report.test(4, "shapes are aligned at the right, and a size of 1 is repeated", [] {
    expect_equal("[3,1] and [4]", broadcast_shape("op", {3, 1}, {4}), {3, 4});
    expect_equal("[4] and [2,1,4]", broadcast_shape("op", {4}, {2, 1, 4}), {2, 1, 4});
    expect_equal("[2,1] and [2,5]", broadcast_shape("op", {2, 1}, {2, 5}), {2, 5});
    expect_equal("[2,5] and [2,1]", broadcast_shape("op", {2, 5}, {2, 1}), {2, 5});
    expect_equal("[] and [2]", broadcast_shape("op", {}, {2}), {2});
    expect_equal("[2,0] and [2,1]", broadcast_shape("op", {2, 0}, {2, 1}), {2, 0});
  });
  report.test(3, "sizes that do not fit are an error that names both shapes", [] {
    expect_throws<ShapeError>("[2,3] and [2,2]", [] { broadcast_shape("op", {2, 3}, {2, 2}); });
    expect_throws<ShapeError>("[4,3] and [4]", [] { broadcast_shape("op", {4, 3}, {4}); });
    expect_throws<ShapeError>("[2,3] read as [3]", [] { broadcast_strides(Tensor({2, 3}), {3}); });
    try {
      broadcast_shape("mix", {2, 3}, {4});
    } catch (const ShapeError& error) {
      const std::string text = error.what();
      for (const char* part : {"mix", "[2,3]", "[4]"})
        expect(text.find(part) != std::string::npos, "the message \"" + text + "\" lacks " + part);
    }
  });
  report.test(3, "a repeated dimension has the stride 0", [] {
    expect_equal("[3] as [2,3]", broadcast_strides(Tensor({3}), {2, 3}), {0, 1});
    expect_equal("[3,1] as [3,4]", broadcast_strides(Tensor({3, 1}), {3, 4}), {1, 0});
    expect_equal("[] as [2,2]", broadcast_strides(Tensor(Shape{}), {2, 2}), {0, 0});
    expect_equal("[2,3] as [5,2,3]", broadcast_strides(Tensor({2, 3}), {5, 2, 3}), {0, 3, 1});
  });
  report.test(2, "a view keeps its own strides", [] {
    const Tensor x({2, 3}), turned = x.as_strided({3, 2}, {1, 3}, 0);
    expect_equal("a transpose as [4,3,2]", broadcast_strides(turned, {4, 3, 2}), {0, 1, 3});
  });
  report.test(4, "the sum is over all that was repeated", [] {
    const Tensor x({2, 3}, {1, 2, 3, 4, 5, 6});
    expect_close("to [3]", values(sum_to(x, {3})), {5, 7, 9});
    expect_close("to [2,1]", values(sum_to(x, {2, 1})), {6, 15});
    expect_close("to []", values(sum_to(x, {})), {21});
    expect_close("to [2,3]", values(sum_to(x, {2, 3})), {1, 2, 3, 4, 5, 6});
    expect_equal("to [1,3], shape", sum_to(x, {1, 3}).shape(), {1, 3});
  });
  report.test(2, "the sum of a view adds the view's elements", [] {
    const Tensor x({2, 3}, {1, 2, 3, 4, 5, 6});
    expect_close("of the transpose to [2]", values(sum_to(x.as_strided({3, 2}, {1, 3}, 0), {2})),
                 {6, 15});
    expect_close("of an expanded one to []", values(sum_to(expand(Tensor({1}, {2}), {3, 4}), {})),
                 {24});
  });
  report.test(
      2, "expanding and summing are each other's gradient: (expand x) · dy = x · (sum dy)", [] {
        for (const auto& [from, to] : {std::pair<Shape, Shape>{{3}, {2, 3}},
                                       {{2, 1, 4}, {2, 3, 4}},
                                       {{}, {5}},
                                       {{1, 3}, {4, 3}}}) {
          const Tensor x = made_up(from, 1), dy = made_up(to, 2);
          expect_close("both products", {dot(expand(x, to), dy)}, {dot(x, sum_to(dy, from))});
        }
      });
  return report.done();
}
