// conv2d and its adjoints in f64: values against the definition, gradients against finite
// differences, errors.
#include "lathe/ops/conv2d.h"

#include "compare.h"
#include "conv2d_cases.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::vector<double> zeros_for(const Shape& shape) {
  return std::vector<double>(static_cast<size_t>(numel_of(shape)), 0.0);
}

// For finite differences, whose cost is the square of the size. That the two adjoints are right at
// larger sizes is compared with the definition.
const Conv2dCase kSmallCases[] = {
    {"3x3", {1, 2, 3, 4}, {2, 2, 3, 3}, {.pad = 1}},
    {"odd sizes, last column unused", {1, 1, 4, 4}, {2, 1, 3, 3}, {.stride = 2, .pad = 1}},
    {"the 1x1 shortcut", {2, 2, 3, 3}, {3, 2, 1, 1}, {.stride = 2}},
    {"two groups", {2, 4, 2, 3}, {4, 2, 2, 2}, {.pad = 1, .groups = 2}},
    {"depthwise", {2, 3, 3, 2}, {3, 1, 2, 2}, {.pad = 1, .groups = 3}},
    {"other rows than columns",
     {1, 2, 3, 4},
     {2, 2, 2, 2},
     {.stride = {2, 1}, .pad = {1, 0}, .dilation = {1, 3}}},
    {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}},
    {"no input channels", {2, 0, 3, 3}, {3, 0, 3, 3}},
    {"no output channels", {2, 2, 3, 3}, {0, 2, 3, 3}},
    {"nothing but padding", {1, 2, 0, 3}, {2, 2, 3, 3}, {.pad = 2}},
};

constexpr double kTolerance = 1e-12;  // f64, sums of less than 100 products of size 1

}  // namespace

TEST_CASE("conv2d: values agree with the definition") {
  for (const Conv2dCase& c : kConv2dCases) {
    CAPTURE(c.name);
    const Tensor x = f64(c.x), w = f64(c.w), bias = f64({c.w[0]});
    Conv2dOptions opt = c.opt;
    opt.bias = bias;
    const Tensor y = conv2d(x, w, opt);
    std::vector<double> expected = zeros_for(y.shape());
    const int64_t plane = y.dim(2) * y.dim(3);
    const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(),
               bs = bias.to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = bs[i / static_cast<size_t>(plane) % bs.size()];
    }
    for_each_product(c, y.shape(),
                     [&](size_t to, size_t from, size_t by) { expected[to] += xs[from] * ws[by]; });
    CHECK(relative_error(y.to_vector<double>(), expected) <= kTolerance);
  }
}

TEST_CASE("conv2d_input_grad and conv2d_weight_grad: values agree with the definition") {
  for (const Conv2dCase& c : kConv2dCases) {
    CAPTURE(c.name);
    const Tensor x = f64(c.x), w = f64(c.w);
    const Tensor dy = f64(conv2d(x, w, c.opt).shape());
    std::vector<double> dx = zeros_for(c.x), dw = zeros_for(c.w);
    const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), dys = dy.to_vector<double>();
    for_each_product(c, dy.shape(), [&](size_t to, size_t from, size_t by) {
      dx[from] += dys[to] * ws[by];
      dw[by] += dys[to] * xs[from];
    });
    CHECK(relative_error(conv2d_input_grad(dy, w, c.x, c.opt).to_vector<double>(), dx) <=
          kTolerance);
    CHECK(relative_error(conv2d_weight_grad(dy, x, c.w, c.opt).to_vector<double>(), dw) <=
          kTolerance);
  }
}

TEST_CASE("conv2d: gradients agree with finite differences, once and twice") {
  for (const Conv2dCase& c : kSmallCases) {
    CAPTURE(c.name);
    const auto f = [&](const Tensors& in) {
      Conv2dOptions opt = c.opt;
      opt.bias = in[2];
      return conv2d(in[0], in[1], opt);
    };
    check_gradients({"conv2d", f, {f64(c.x), f64(c.w), f64({c.w[0]})}});
  }
}

TEST_CASE("conv2d_input_grad and conv2d_weight_grad: gradients agree with finite differences") {
  for (const Conv2dCase& c : kSmallCases) {
    CAPTURE(c.name);
    const Tensor x = f64(c.x), w = f64(c.w), dy = f64(conv2d(x, w, c.opt).shape());
    const auto input = [&](const Tensors& in) {
      return conv2d_input_grad(in[0], in[1], c.x, c.opt);
    };
    check_gradients({"conv2d_input_grad", input, {dy, w}});
    const auto weight = [&](const Tensors& in) {
      return conv2d_weight_grad(in[0], in[1], c.w, c.opt);
    };
    check_gradients({"conv2d_weight_grad", weight, {dy, x}});
  }
}

TEST_CASE("conv2d: transposed, sliced and expanded inputs give what their copies give") {
  const Tensor whole = f64({2, 7, 6, 5}), w = f64({3, 4, 3, 3});
  const Tensor inputs[] = {
      transpose(f64({2, 4, 5, 6}), 2, 3),
      slice(whole, 1, 0, 7, 2),
      slice(slice(f64({2, 4, 12, 12}), 2, 1, 12, 2), 3, 3, 12, 3),
      expand(f64({1, 4, 6, 1}), {2, 4, 6, 5}),
      contiguous(f64({2, 4, 6, 5}), kChannelsLast),
  };
  for (const Tensor& x : inputs) {
    const Tensor copy = contiguous(x);
    CHECK(relative_error(conv2d(x, w), conv2d(copy, w)) == 0);
    const Tensor w_view = transpose(f64({3, 4, 3, 3}), 2, 3);
    CHECK(relative_error(conv2d(x, w_view), conv2d(copy, contiguous(w_view))) == 0);
  }
}

TEST_CASE("conv2d: the result is NHWC where x is") {
  const Tensor w = f64({3, 2, 3, 3});
  const Tensor x = contiguous(f64({2, 2, 5, 5}), kChannelsLast);
  CHECK(conv2d(x, w).is_contiguous(kChannelsLast));
  CHECK(conv2d(contiguous(x), w).is_contiguous());
  CHECK(conv2d_input_grad(conv2d(x, w), w, x.shape()).is_contiguous(kChannelsLast));

  const Tensor wide = contiguous(f64({4, 5, 7, 8}), kChannelsLast);
  for (const Tensor& part : {narrow(wide, 1, 2, 2), narrow(narrow(wide, 1, 0, 2), 3, 1, 5),
                             slice(narrow(wide, 1, 3, 2), 0, 0, 4, 2)}) {
    const Tensor y = conv2d(part, w);
    CHECK(y.is_contiguous(kChannelsLast));
    CHECK(relative_error(y, conv2d(contiguous(part), w)) <= 1e-15);
  }
  // Parts of row-major images, and numbers that repeat.
  CHECK(conv2d(narrow(contiguous(wide), 1, 2, 2), w).is_contiguous());
  CHECK(conv2d(expand(f64({2, 2, 1, 1}), {2, 2, 5, 5}), w).is_contiguous());

  // One channel lies in memory the same way in both orders: the strides tell what was meant.
  const Tensor gray = empty_strided({2, 1, 5, 5}, channels_last_strides({2, 1, 5, 5}), kF64, kCPU);
  const Tensor v = f64({3, 1, 3, 3});
  CHECK(conv2d(gray, v).is_contiguous(kChannelsLast));
  CHECK(conv2d(zeros({2, 1, 5, 5}, {.dtype = kF64}), v).is_contiguous());
}

TEST_CASE("conv2d: an image without a batch") {
  const Tensor x = f64({4, 5, 6}), w = f64({6, 2, 3, 3}), bias = f64({6});
  const Conv2dOptions opt{.bias = bias, .pad = 1, .groups = 2};
  CHECK(conv2d(x, w, opt).shape() == Shape{6, 5, 6});
  CHECK(relative_error(conv2d(x, w, opt), conv2d(x.unsqueeze(0), w, opt)[0]) == 0);
  const auto f = [](const Tensors& in) { return conv2d(in[0], in[1], {.stride = 2}); };
  check_gradients({"conv2d", f, {f64({2, 5, 4}), f64({3, 2, 3, 2})}});
}

TEST_CASE("conv2d: gradients that nobody needs are not computed") {
  const Tensor x = f64({1, 2, 4, 4}), w = f64({2, 2, 3, 3});
  w.requires_grad_();
  sum(conv2d(x, w)).backward();
  CHECK(w.grad().defined());
  CHECK(!x.grad().defined());
}

TEST_CASE("conv2d: errors name the values") {
  const auto message = [](const Shape& x, const Shape& w, const Conv2dOptions& opt = {}) {
    try {
      conv2d(zeros(x), zeros(w), opt);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  CHECK(message({1, 64, 8, 8}, {16, 3, 3, 3}) ==
        "conv2d: x has 64 channels but w expects 3 (x: [1,64,8,8], w: [16,3,3,3], groups=1)");
  CHECK(message({8, 8}, {16, 64, 3, 3}) ==
        "conv2d: x and w must be [N,C,H,W] and [K,C/groups,R,S] (x: [8,8], w: [16,64,3,3])");
  CHECK(message({1, 1, 3, 9}, {1, 1, 3, 3}, {.dilation = {2, 1}}) ==
        "conv2d: the kernel spans 5 rows but the padded input has 3 (3 + 2*0)");
  CHECK(message({1, 1, 9, 3}, {1, 1, 3, 6}, {.pad = 1}) ==
        "conv2d: the kernel spans 6 columns but the padded input has 5 (3 + 2*1)");
  CHECK(message({1, 1, 3, 3}, {1, 1, 3, 3}, {.stride = {1, 0}}) ==
        "conv2d: stride must be positive, got [1,0]");
  CHECK(message({1, 1, 3, 3}, {1, 1, 3, 3}, {.pad = -1}) ==
        "conv2d: pad must not be negative, got -1");
  CHECK(message({1, 1, 3, 3}, {1, 1, 3, 3}, {.dilation = 0}) ==
        "conv2d: dilation must be positive, got 0");
  CHECK(message({1, 4, 3, 3}, {3, 2, 3, 3}, {.groups = 2}) ==
        "conv2d: 3 output channels do not divide into 2 groups (w: [3,2,3,3])");
  CHECK(message({1, 4, 3, 3}, {3, 2, 3, 3}, {.groups = 0}) ==
        "conv2d: groups must be positive, got 0");
  CHECK(message({1, 1, 3, 3}, {1, 1, 0, 3}) == "conv2d: the kernel is empty (w: [1,1,0,3])");
  CHECK(message({1, 1, 3, 3}, {2, 1, 3, 3}, {.bias = zeros({3})}) ==
        "conv2d: bias must be [2], one number per output channel (bias: f32[3]@cpu, w: "
        "f32[2,1,3,3]@cpu)");
  CHECK(message({1, 1, 3, 3}, {1, 1, 3, 3}, {.pad = INT64_MAX}) ==
        "conv2d: 3 rows with pad 9223372036854775807 do not fit an int64");
  CHECK_THROWS_WITH_AS(conv2d(zeros({1, 1, 3, 3}), zeros({1, 1, 3, 3}, {.dtype = kF64})),
                       doctest::Contains("x and w must have one floating dtype (x: f32[1,1,3,3]"),
                       DTypeError);
  CHECK_THROWS_AS(
      conv2d(zeros({1, 1, 3, 3}, {.dtype = kI32}), zeros({1, 1, 3, 3}, {.dtype = kI32})),
      DTypeError);
  CHECK_THROWS_WITH_AS(
      conv2d_input_grad(zeros({1, 2, 3, 3}), zeros({2, 1, 3, 3}), {1, 1, 4, 4}),
      doctest::Contains("dy must be [1,2,2,2], the convolution of [1,1,4,4] with [2,1,3,3]"),
      ShapeError);
}
