// conv1d: hand-made values, gradients, errors. The arithmetic is conv2d's, tested there.
#include "lathe/ops/conv1d.h"

#include "compare.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("conv1d: values by hand") {
  const Tensor x = view(arange(1.0, 7.0), {1, 1, 6});  // 1 2 3 4 5 6
  const Tensor w = view(tensor({1.f, 10.f, 100.f}), {1, 1, 3});
  CHECK(conv1d(x, w).to_vector<float>() == std::vector<float>{321, 432, 543, 654});
  CHECK(conv1d(x, w, {.bias = tensor({0.5f}), .stride = 2, .pad = 1}).to_vector<float>() ==
        std::vector<float>{210.5f, 432.5f, 654.5f});
  CHECK(conv1d(x, w, {.dilation = 2}).to_vector<float>() == std::vector<float>{531, 642});
  CHECK(conv1d(x, w).shape() == Shape{1, 1, 4});
}

TEST_CASE("conv1d: gradients agree with finite differences, once and twice") {
  const auto f = [](const Tensors& in) {
    return conv1d(in[0], in[1], {.bias = in[2], .stride = 2, .pad = 2, .groups = 2});
  };
  check_gradients({"conv1d", f, {f64({2, 4, 7}), f64({6, 2, 3}), f64({6})}});
}

TEST_CASE("conv1d: a wrong number of dimensions names both tensors") {
  CHECK_THROWS_WITH_AS(conv1d(zeros({4, 7}), zeros({6, 4, 3})),
                       doctest::Contains("conv1d: x and w must be [N,C,W] and [K,C/groups,S] (x: "
                                         "f32[4,7]@cpu, w: f32[6,4,3]@cpu)"),
                       ShapeError);
}
