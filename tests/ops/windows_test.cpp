// windows, unfold and fold. The numbers are PyTorch's (1.13).
#include "lathe/ops/windows.h"

#include "compare.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using In = const Tensors&;

/// (7 i) mod 11 - 5
Tensor sample(const Shape& shape, DType dtype) {
  return cast(remainder(arange(numel_of(shape)) * 7, 11) - 5, dtype).view(shape);
}
}  // namespace

TEST_CASE("windows: values in every layout and dtype, as a view") {
  for (const DType dtype : {kF32, kBool, kU8, kBF16}) {
    for (const Layout& layout : layouts()) {
      const Tensor line = layout.apply(cast(arange(7), dtype));
      const Tensor three = windows(line, 0, 3, 2);
      CHECK(three.shape() == Shape{3, 3});
      if (dtype != kBool) CHECK(difference(three, {0, 1, 2, 2, 3, 4, 4, 5, 6}, 0) == "");
      const Tensor x = layout.apply(cast(arange(6), dtype).view({2, 3}));
      if (dtype != kBool)
        CHECK(difference(windows(x, -1, 2, 1), {0, 1, 1, 2, 3, 4, 4, 5}, 0) == "");
      CHECK(windows(x, 0, 2, 5).shape() == Shape{1, 3, 2});
      CHECK(windows(x, 0, 0, 1).shape() == Shape{3, 3, 0});
      CHECK(windows(x, 0, 2, 1).shares_storage(x));
    }
  }
  const Tensor x = zeros({4});
  windows(x, 0, 2, 2)[1].fill_(5);
  CHECK(x.to_vector<int>() == std::vector<int>{0, 0, 5, 5});
  CHECK(windows(zeros({0, 3}), 1, 2, 1).shape() == Shape{0, 2, 2});
}

TEST_CASE("unfold, fold: values in every layout and dtype") {
  const UnfoldOptions options{.kernel = 2, .stride = {2, 1}, .pad = {1, 0}};
  const UnfoldOptions far{.kernel = 2, .stride = {1, 2}, .pad = 1, .dilation = {2, 1}};
  for (const DType dtype : {kF64, kF32, kF16, kI32}) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " ", dtype));
      const Tensor x = layout.apply(sample({1, 2, 4, 3}, dtype));
      const Tensor columns = unfold(x, options);
      CHECK(columns.shape() == Shape{1, 8, 6});
      CHECK(difference(columns, {0,  0, 5,  1,  3, -1, 0, 0,  1, -3, -1, -5, -5, 2,  4, 0,
                                 0,  0, 2,  -2, 0, -4, 0, 0,  0, 0,  1,  -3, -1, -5, 0, 0,
                                 -3, 4, -5, 2,  2, -2, 0, -4, 0, 0,  -2, 5,  -4, 3,  0, 0},
                       0) == "");
      CHECK(difference(fold(unfold(x, far), {4, 3}, far),
                       {-5, 2,  -2, 10, 2,  -6, 8, 0,  -8, 3,  -1, -5,
                        2,  -2, 5,  2,  -6, 8,  0, -8, 6,  -1, -5, 2},
                       0) == "");
    }
  }
  CHECK(unfold(zeros({0, 2, 4, 3}), options).shape() == Shape{0, 8, 6});
  CHECK(fold(zeros({0, 8, 6}), {4, 3}, options).shape() == Shape{0, 2, 4, 3});
  CHECK(unfold(zeros({2, 0, 4, 3}), options).shape() == Shape{2, 0, 6});
}

TEST_CASE("unfold: a convolution is a product with its columns") {
  manual_seed(21);
  const Tensor x = randn({2, 3, 6, 5}), w = randn({4, 3, 3, 2});
  const Tensor y =
      matmul(w.reshape({4, 18}), unfold(x, {.kernel = {3, 2}, .stride = {2, 1}, .pad = 1}));
  const Tensor want = conv2d(x, w, {.stride = {2, 1}, .pad = 1});
  CHECK(difference(y.view(want.shape()), want, 1e-5) == "");
}

TEST_CASE("windows: gradients agree with finite differences, twice") {
  manual_seed(22);
  const UnfoldOptions options{.kernel = 2, .stride = {2, 1}, .pad = {1, 0}, .dilation = {1, 2}};
  // clang-format off
  const GradientCase cases[] = {
      {"windows", [](In in) { return windows(in[0], 1, 3, 1); }, {f64({2, 5})}},
      {"unfold", [&](In in) { return unfold(in[0], options); }, {f64({1, 2, 3, 4})}},
      {"fold", [&](In in) { return fold(in[0], {3, 4}, options); }, {f64({1, 8, 4})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("windows: errors name the op and the values") {
  CHECK_THROWS_WITH_AS(windows(zeros({3}), 0, 4, 1),
                       Contains("windows: 4 is larger than dimension 0, which has 3"), ShapeError);
  CHECK_THROWS_AS(windows(zeros({3}), 0, 2, 0), ValueError);
  CHECK_THROWS_AS(windows(zeros({3}), 0, -1, 1), ValueError);
  CHECK_THROWS_AS(windows(zeros({3}), 1, 1, 1), IndexError);
  CHECK_THROWS_AS(windows(tensor(1.0, kF64), 0, 1, 1), IndexError);
  CHECK_THROWS_AS(unfold(zeros({2, 3, 4}), {}), ShapeError);
  CHECK_THROWS_WITH_AS(unfold(zeros({1, 1, 2, 2}), {.kernel = 3}),
                       Contains("a window of 3 with dilation 1 is larger than 2"), ShapeError);
  CHECK_THROWS_AS(unfold(zeros({1, 1, 2, 2}), {.stride = 0}), ValueError);
  CHECK_THROWS_WITH_AS(
      fold(zeros({1, 8, 5}), {4, 3}, {.kernel = 2}),
      Contains("fold: columns must be [N,C*4,6] for images of [4,3] (columns: f32[1,8,5]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(fold(zeros({1, 7, 6}), {4, 3}, {.kernel = 2}), ShapeError);
  CHECK_THROWS_AS(fold(zeros({1, 8, 6}, {.dtype = kBool}), {4, 3}, {.kernel = 2}), DTypeError);
}
