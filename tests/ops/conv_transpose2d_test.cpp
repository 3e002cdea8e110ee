// conv_transpose2d: values against the scattering definition, gradients, errors.
#include "lathe/ops/conv_transpose2d.h"

#include "compare.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  std::string name;
  Shape x, w, y;
  ConvTranspose2dOptions opt = {};
};

const Case kCases[] = {
    {"plain", {2, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 5, 6}},
    {"doubling", {1, 1, 3, 3}, {1, 2, 4, 4}, {1, 2, 6, 6}, {.stride = 2, .pad = 1}},
    {"output pad",
     {1, 2, 3, 4},
     {2, 2, 3, 3},
     {1, 2, 6, 8},
     {.stride = 2, .pad = 1, .output_pad = 1}},
    {"groups", {1, 4, 2, 3}, {4, 3, 2, 2}, {1, 6, 3, 4}, {.groups = 2}},
    {"dilation, other rows than columns",
     {1, 1, 4, 3},
     {1, 2, 2, 3},
     {1, 2, 8, 7},
     {.stride = {2, 1}, .output_pad = {0, 0}, .dilation = {1, 2}}},
    {"output pad as large as the stride",
     {1, 1, 3, 3},
     {1, 1, 2, 2},
     {1, 1, 6, 6},
     {.output_pad = 1, .dilation = 2}},
    {"output pad beyond the stride",
     {1, 1, 2, 2},
     {1, 1, 2, 2},
     {1, 1, 10, 10},
     {.stride = 2, .output_pad = 3, .dilation = 4}},
    {"output pad beyond the stride of the rows, with products in what it adds",
     {2, 2, 3, 4},
     {2, 1, 2, 3},
     {2, 2, 6, 8},
     {.stride = {1, 2}, .pad = 1, .output_pad = {2, 1}, .dilation = {3, 1}, .groups = 2}},
    {"one pixel", {1, 3, 1, 1}, {3, 2, 1, 1}, {1, 2, 1, 1}},
    {"no images", {0, 3, 2, 2}, {3, 2, 3, 3}, {0, 2, 4, 4}},
};

std::vector<double> scattered(const Case& c, const Tensor& x, const Tensor& w, const Tensor& bias) {
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), bs = bias.to_vector<double>();
  std::vector<double> y(static_cast<size_t>(numel_of(c.y)));
  const int64_t plane = c.y[2] * c.y[3], group_c = c.x[1] / c.opt.groups;
  for (size_t i = 0; i < y.size(); ++i) y[i] = bs[i / static_cast<size_t>(plane) % bs.size()];
  for (size_t i = 0; i < xs.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    const int64_t q = at % c.x[3], p = at / c.x[3] % c.x[2];
    const int64_t ch = at / (c.x[3] * c.x[2]) % c.x[1], n = at / (c.x[3] * c.x[2] * c.x[1]);
    for (int64_t k = 0; k < c.w[1]; ++k)
      for (int64_t r = 0; r < c.w[2]; ++r)
        for (int64_t s = 0; s < c.w[3]; ++s) {
          const int64_t h = p * c.opt.stride.rows - c.opt.pad.rows + r * c.opt.dilation.rows;
          const int64_t v = q * c.opt.stride.cols - c.opt.pad.cols + s * c.opt.dilation.cols;
          if (h < 0 || h >= c.y[2] || v < 0 || v >= c.y[3]) continue;
          const int64_t to = ((n * c.y[1] + ch / group_c * c.w[1] + k) * c.y[2] + h) * c.y[3] + v;
          const int64_t by = ((ch * c.w[1] + k) * c.w[2] + r) * c.w[3] + s;
          y[static_cast<size_t>(to)] += xs[i] * ws[static_cast<size_t>(by)];
        }
  }
  return y;
}

}  // namespace

TEST_CASE("conv_transpose2d: values agree with the definition") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor x = f64(c.x), w = f64(c.w), bias = f64({c.y[1]});
    ConvTranspose2dOptions opt = c.opt;
    opt.bias = bias;
    const Tensor y = conv_transpose2d(x, w, opt);
    REQUIRE(y.shape() == c.y);
    CHECK(relative_error(y.to_vector<double>(), scattered(c, x, w, bias)) <= 1e-12);
    opt.bias = cast(bias, kF32);
    CHECK(relative_error(conv_transpose2d(cast(x, kF32), cast(w, kF32), opt), y) <= 1e-5);
  }
}

TEST_CASE("conv_transpose2d: gradients agree with finite differences, once and twice") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto f = [&](const Tensors& in) {
      ConvTranspose2dOptions opt = c.opt;
      opt.bias = in[2];
      return conv_transpose2d(in[0], in[1], opt);
    };
    check_gradients({"conv_transpose2d", f, {f64(c.x), f64(c.w), f64({c.y[1]})}});
  }
}

TEST_CASE("conv_transpose2d: an image without a batch; NHWC stays") {
  const Tensor x = f64({2, 3, 4}), w = f64({2, 3, 3, 3});
  const ConvTranspose2dOptions opt{.stride = 2, .output_pad = 1};
  const Tensor y = conv_transpose2d(x, w, opt);
  CHECK(y.shape() == Shape{3, 8, 10});
  CHECK(difference(y, conv_transpose2d(x.unsqueeze(0), w, opt)[0], 0) == "");
  const Tensor nhwc = contiguous(f64({2, 2, 3, 4}), kChannelsLast);
  CHECK(conv_transpose2d(nhwc, w, {.output_pad = 1, .dilation = 2}).is_contiguous(kChannelsLast));
  const auto f = [&](const Tensors& in) { return conv_transpose2d(in[0], in[1], opt); };
  check_gradients({"conv_transpose2d", f, {x, w}});
  CHECK_THROWS_AS(conv_transpose2d(f64({3, 4}), w), ShapeError);
}

TEST_CASE("conv_transpose2d: errors name the values") {
  CHECK_THROWS_WITH_AS(conv_transpose2d(zeros({1, 4, 3, 3}), zeros({3, 2, 3, 3})),
                       doctest::Contains("x has 4 channels but w expects 3"), ShapeError);
  CHECK_THROWS_WITH_AS(
      conv_transpose2d(zeros({1, 3, 3, 3}), zeros({3, 2, 3, 3}), {.stride = 2, .output_pad = 2}),
      doctest::Contains("output_pad must be at least 0 and below stride or dilation, got 2"),
      ValueError);
  CHECK_THROWS_WITH_AS(conv_transpose2d(zeros({1, 3, 1, 1}), zeros({3, 2, 3, 3}), {.pad = 2}),
                       doctest::Contains("an input of 1 with pad 2 gives an output of -1"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      conv_transpose2d(zeros({1, 3, 2, 2}), zeros({3, 2, 3, 3}), {.bias = zeros({3})}),
      doctest::Contains("bias must be [2], one number per output channel"), ShapeError);
}
