// Diagonals. The numbers are PyTorch's (1.13).
#include "lathe/ops/diagonal.h"

#include "compare.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

using Values = std::vector<double>;
using In = const Tensors&;

TEST_CASE("diagonal: values in every layout and dtype") {
  for (const DType dtype : {kF32, kI32, kF16, kU8}) {
    for (const Layout& layout : layouts()) {
      CAPTURE(layout.name);
      const Tensor x = layout.apply(arange(24, {.dtype = dtype}).view({2, 3, 4}));
      CHECK(difference(diagonal(x, {.offset = 1, .dim1 = 2, .dim2 = 1}), {4, 9, 16, 21}, 0) == "");
      CHECK(difference(diagonal(x, {.dim2 = 2}), {0, 13, 4, 17, 8, 21}, 0) == "");
      CHECK(diagonal(x, {.offset = -5, .dim1 = 1, .dim2 = 2}).shape() == Shape{2, 0});
      CHECK(difference(diagonal(x, {.offset = -2, .dim1 = -2, .dim2 = -1}), {8, 20}, 0) == "");
      const Tensor m = x[0];
      CHECK(difference(diag(m), {0, 5, 10}, 0) == "");
      CHECK(difference(diag(m, 3), {3}, 0) == "");
      CHECK(difference(trace(m), {15}, 0) == "");
      const Tensor v = layout.apply(arange(1, 5, 1, {.dtype = dtype}).view({2, 2}));
      CHECK(difference(diag(v[0], -1), {0, 0, 0, 1, 0, 0, 0, 2, 0}, 0) == "");
      const Tensor upper = diag_embed(v, {.offset = 1});
      CHECK(upper.shape() == Shape{2, 3, 3});
      CHECK(difference(upper, {0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}, 0) == "");
      const Tensor lower = diag_embed(v, {.offset = -1, .dim1 = 0, .dim2 = 2});
      CHECK(lower.shape() == Shape{3, 2, 3});
      CHECK(difference(lower, {0, 0, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 2, 0, 0, 4, 0}, 0) == "");
    }
  }
  CHECK(trace(arange(4).view({2, 2})).dtype() == kI64);
  CHECK(diag(zeros({0})).shape() == Shape{0, 0});
  CHECK(diagonal(zeros({0, 3})).shape() == Shape{0});
  CHECK(trace(zeros({0, 3})).item<float>() == 0);
}

TEST_CASE("diagonal: is a view, diag of a matrix is not") {
  const Tensor x = zeros({2, 2});
  diagonal(x, {.offset = 1}).fill_(3);
  diag(x).fill_(9);
  CHECK(x.to_vector<double>() == Values{0, 3, 0, 0});
}

TEST_CASE("diagonal: gradients agree with finite differences, twice") {
  manual_seed(4);
  const GradientCase cases[] = {
      {"diagonal",
       [](In in) { return diagonal(in[0], {.offset = -1, .dim1 = 2, .dim2 = 0}); },
       {f64({3, 2, 3})}},
      {"diag_embed",
       [](In in) { return diag_embed(in[0], {.offset = 1, .dim1 = 1, .dim2 = 0}); },
       {f64({2, 3})}},
      {"diag", [](In in) { return diag(in[0], 1); }, {f64({3, 4})}},
      {"diag of a vector", [](In in) { return diag(in[0], -1); }, {f64({3})}},
      {"trace", [](In in) { return trace(in[0]); }, {f64({3, 4})}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("diagonal: errors name the op and the tensor") {
  CHECK_THROWS_WITH_AS(diagonal(zeros({3})),
                       Contains("diagonal: x must have 2 or more dimensions (x: f32[3]@cpu)"),
                       ShapeError);
  CHECK_THROWS_AS(diagonal(zeros({3, 3}), {.dim1 = 1, .dim2 = -1}), IndexError);
  CHECK_THROWS_AS(diagonal(zeros({3, 3}), {.dim2 = 2}), IndexError);
  CHECK_THROWS_AS(diag_embed(tensor(1.0, kF64)), ShapeError);
  CHECK_THROWS_AS(diag_embed(zeros({2}), {.offset = INT64_MAX}), ShapeError);
  CHECK_THROWS_AS(diag_embed(zeros({2}), {.dim1 = 0, .dim2 = 0}), IndexError);
  CHECK_THROWS_AS(diag(zeros({1, 2, 3})), ShapeError);
  CHECK_THROWS_WITH_AS(trace(zeros({3})), Contains("trace: x must be a matrix"), ShapeError);
}
