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
  CHECK_THROWS_WITH_AS(conv1d(zeros({7}), zeros({6, 4, 3})),
                       doctest::Contains("conv1d: x and w must be [N,C,W] and [K,C/groups,S] (x: "
                                         "f32[7]@cpu, w: f32[6,4,3]@cpu)"),
                       ShapeError);
}

TEST_CASE("conv1d: a line without a batch") {
  const Tensor x = f64({4, 7}), w = f64({6, 2, 3}), bias = f64({6});
  const Conv1dOptions opt{.bias = bias, .stride = 2, .pad = 2, .groups = 2};
  CHECK(conv1d(x, w, opt).shape() == Shape{6, 5});
  CHECK(difference(conv1d(x, w, opt), conv1d(x.unsqueeze(0), w, opt)[0], 0) == "");
  const auto f = [](const Tensors& in) { return conv1d(in[0], in[1], {.pad = 1}); };
  check_gradients({"conv1d", f, {f64({2, 4}), f64({3, 2, 3})}});
}

TEST_CASE("conv1d: errors name conv1d and the shapes that it was given") {
  const Tensor x = zeros({2, 4, 7}), w = zeros({6, 4, 3});
  const auto says = [&](const Tensor& filter, const Conv1dOptions& opt) -> std::string {
    try {
      conv1d(x, filter, opt);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  CHECK(says(zeros({6, 3, 3}), {}) ==
        "conv1d: x has 4 channels but w expects 3 (x: [2,4,7], w: [6,3,3], groups=1)");
  CHECK(says(zeros({6, 4, 9}), {.pad = 0}) ==
        "conv1d: the kernel spans 9 columns but the padded input has 7 (7 + 2*0)");
  CHECK(says(zeros({6, 4, 0}), {}) == "conv1d: the kernel is empty (w: [6,4,0])");
  CHECK(says(w, {.stride = 0}) == "conv1d: stride must be positive, got 0");
  CHECK(says(w, {.pad = -1}) == "conv1d: pad must not be negative, got -1");
  CHECK(says(w, {.dilation = 0}) == "conv1d: dilation must be positive, got 0");
  CHECK(says(zeros({0, 2, 3}), {.groups = INT64_MAX}) ==
        concat("conv1d: ", INT64_MAX, " groups of 2 channels do not fit an int64"));
  CHECK(says(w, {.bias = zeros({5})}) ==
        "conv1d: bias must be [6], one number per output channel (bias: f32[5]@cpu, w: "
        "f32[6,4,3]@cpu)");
  CHECK(says(cast(w, kF64), {}) ==
        "conv1d: x and w must have one floating dtype (x: f32[2,4,7]@cpu, w: f64[6,4,3]@cpu)");
}
