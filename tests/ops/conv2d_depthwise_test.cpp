// Depthwise convolution by our own loops against loops over single numbers in f64: all passes,
// filters, strides, paddings and dilations, ragged vectors and tiles, numbers of threads; and which
// sizes it is chosen for.
#include "lathe/ops/conv/cpu/conv2d_depthwise_cpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tests/threads_scope.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct DepthwiseCase {
  const char* name;
  Shape x;
  Pair kernel;
  Conv2dOptions opt;
};

const DepthwiseCase kCases[] = {
    {"one vector", {1, 16, 5, 7}, 3, {.pad = 1}},
    {"one channel less than a vector", {2, 15, 5, 5}, 3, {.pad = 1}},
    {"one more", {2, 17, 5, 5}, 3, {.pad = 1}},
    {"a group of vectors and one channel", {3, 65, 4, 4}, 3, {.pad = 1}},
    {"a group less one channel, 5x5", {3, 63, 4, 4}, 5, {.pad = 2}},
    {"one channel", {2, 1, 6, 5}, 3, {.pad = 1}},
    {"images smaller than the filter", {5, 20, 2, 2}, 5, {.pad = 2}},
    {"one pixel", {3, 33, 1, 1}, 3, {.pad = 1}},
    {"parts that sum several tiles", {40, 20, 4, 4}, 5, {.pad = 2}},
    {"one part that sums all tiles", {3, 1030, 3, 3}, 3, {.pad = 1}},
    {"rows of every rest by eight outputs", {1, 16, 3, 15}, 3, {.pad = 1}},
    {"several tiles of an image", {2, 19, 37, 31}, 3, {.pad = 1}},
    {"a row wider than a tile", {1, 16, 3, 521}, 3, {.pad = 1}},
    {"several tiles, 7x7", {1, 16, 29, 23}, 7, {.pad = 3}},
    {"stride 2", {2, 24, 8, 8}, 3, {.stride = 2, .pad = 1}},
    {"stride 2, odd sizes", {2, 24, 11, 7}, 3, {.stride = 2, .pad = 1}},
    {"stride 2, several tiles", {1, 17, 67, 41}, 5, {.stride = 2, .pad = 2}},
    {"stride 2, a last row that nobody reads", {1, 16, 6, 6}, 3, {.stride = 2}},
    {"a stride beyond the filter", {1, 18, 11, 13}, 2, {.stride = {3, 5}}},
    {"sides that differ", {2, 18, 9, 14}, {5, 3}, {.stride = {1, 2}, .pad = {1, 2}}},
    {"dilation", {1, 18, 13, 11}, 3, {.pad = 2, .dilation = 2}},
    {"dilation and stride", {1, 18, 13, 11}, 3, {.stride = 2, .pad = {3, 1}, .dilation = {3, 2}}},
    {"padding beyond the filter", {1, 16, 3, 4}, 2, {.stride = 2, .pad = 4}},
    {"1x1 with padding", {1, 16, 3, 4}, 1, {.pad = 1}},
};

struct Operands {
  Conv2dGeometry g;
  Tensor x, w, bias, dy;
};

Operands operands_of(const DepthwiseCase& c) {
  manual_seed(5);
  const int64_t channels = c.x[1];
  Conv2dOptions opt = c.opt;
  opt.groups = channels;
  const Shape w{channels, 1, c.kernel.rows, c.kernel.cols};
  const Conv2dGeometry g = conv2d_geometry("test", c.x, w, opt);
  return {g, randn(c.x).contiguous(kChannelsLast), randn(w), randn({channels}),
          randn(g.y_shape()).contiguous(kChannelsLast)};
}

struct Passes {
  std::vector<double> y, dx, dw;
};

Passes by_engine(const Operands& in) {
  const auto nan = [](const Shape& shape) {  // every element must be written
    return full(shape, NAN, {.dtype = kF32}).contiguous(kChannelsLast);
  };
  const Tensor y = nan(in.g.y_shape()), dx = nan(in.g.x_shape());
  const Tensor dw = full(in.g.w_shape(), NAN, {.dtype = kF32});
  cpu::depthwise_forward(in.g, y, in.x, in.w, in.bias);
  cpu::depthwise_backward_input(in.g, dx, in.dy, in.w);
  cpu::depthwise_backward_weight(in.g, dw, in.dy, in.x);
  return {y.to_vector<double>(), dx.to_vector<double>(), dw.to_vector<double>()};
}

/// The definition, one product at a time.
Passes by_definition(const Operands& in) {
  const Conv2dGeometry& g = in.g;
  const auto x = in.x.to_vector<double>(), w = in.w.to_vector<double>();
  const auto bias = in.bias.to_vector<double>(), dy = in.dy.to_vector<double>();
  Passes p{std::vector<double>(dy.size()), std::vector<double>(x.size()),
           std::vector<double>(w.size())};
  for (int64_t i = 0; i < std::ssize(dy); ++i) {
    const int64_t col = i % g.Q, row = i / g.Q % g.P, image = i / g.Q / g.P;  // of all channels
    const int64_t channel = image % g.K;
    p.y[size_t(i)] = bias[size_t(channel)];
    for (int64_t r = 0; r < g.R; ++r) {
      for (int64_t s = 0; s < g.S; ++s) {
        const int64_t h = row * g.stride.rows - g.pad.rows + r * g.dilation.rows;
        const int64_t v = col * g.stride.cols - g.pad.cols + s * g.dilation.cols;
        if (h < 0 || h >= g.H || v < 0 || v >= g.W) continue;
        const auto at = size_t((image * g.H + h) * g.W + v);
        const auto tap = size_t((channel * g.R + r) * g.S + s);
        p.y[size_t(i)] += x[at] * w[tap];
        p.dx[at] += dy[size_t(i)] * w[tap];
        p.dw[tap] += dy[size_t(i)] * x[at];
      }
    }
  }
  return p;
}

}  // namespace

TEST_CASE("depthwise: all passes agree with the definition in f64") {
  for (const DepthwiseCase& c : kCases) {
    CAPTURE(c.name);
    Operands in = operands_of(c);
    Passes got = by_engine(in), want = by_definition(in);
    constexpr double kBound = 2e-6;  // sums of up to 2,300 normal values
    CHECK(relative_error(got.y, want.y) <= kBound);
    CHECK(relative_error(got.dx, want.dx) <= kBound);
    CHECK(relative_error(got.dw, want.dw) <= kBound);
    const Tensor unbiased = empty_like(in.dy);
    cpu::depthwise_forward(in.g, unbiased, in.x, in.w, {});
    in.bias = zeros_like(in.bias);
    CHECK(unbiased.to_vector<double>() == by_engine(in).y);
  }
}

TEST_CASE(
    "depthwise: the gradient of a filter stays exact where a part sums many pixels of one sign") {
  // 16 parts of 20 images. One f32 sum of a part's 20,480 products is off by 2e-4, the sums of its
  // tiles of 512 pixels by 4e-6.
  const Shape x{320, 16, 32, 32}, w{16, 1, 1, 1};
  const Conv2dGeometry g = conv2d_geometry("test", x, w, {.groups = 16});
  const auto image = [&](float value) {
    return full({320, 32, 32, 16}, value, {.dtype = kF32}).permute({0, 3, 1, 2});
  };
  const Tensor dw = empty(w);
  cpu::depthwise_backward_weight(g, dw, image(0.1f), image(1.f));
  const double want = 320. * 32 * 32 * 0.1f;
  for (const float value : dw.to_vector<float>()) CHECK(std::abs(value - want) <= 1e-5 * want);
}

TEST_CASE("depthwise: any number of threads gives the same bits") {
  for (const DepthwiseCase& c : kCases) {
    CAPTURE(c.name);
    const Operands in = operands_of(c);
    const auto values = [&](int threads) {
      const ThreadsScope scope(threads);
      const Passes p = by_engine(in);
      return std::vector{p.y, p.dx, p.dw};
    };
    const auto one = values(1);
    CHECK(values(2) == one);
    CHECK(values(7) == one);
    CHECK(values(16) == one);
  }
}

TEST_CASE("depthwise: conv2d uses it for the gradient of large filters, exact or not") {
  const auto takes = [](const Shape& x, const Shape& w, const Conv2dOptions& opt) {
    return cpu::depthwise_takes(conv2d_geometry("test", x, w, opt));
  };
  CHECK(takes({1, 16, 3, 3}, {16, 1, 3, 3}, {.groups = 16}));
  CHECK(takes({1, 3, 5, 5}, {3, 1, 5, 2}, {.stride = 3, .pad = 2, .groups = 3}));
  CHECK(takes({1, 4, 40, 40}, {4, 1, 32, 2}, {.stride = 8, .dilation = {1, 31}, .groups = 4}));
  CHECK(!takes({1, 4, 40, 40}, {4, 1, 33, 2}, {.groups = 4}));
  CHECK(!takes({1, 4, 40, 40}, {4, 1, 2, 2}, {.dilation = {1, 32}, .groups = 4}));
  CHECK(!takes({1, 4, 40, 40}, {4, 1, 2, 2}, {.stride = {9, 1}, .groups = 4}));
  CHECK(!takes({1, 16, 3, 3}, {32, 1, 3, 3}, {.groups = 16}));
  CHECK(!takes({1, 16, 3, 3}, {16, 2, 3, 3}, {.groups = 8}));
  CHECK(!takes({1, 16, 3, 3}, {16, 16, 3, 3}, {}));
  const Operands in = operands_of({"", {2, 20, 6, 5}, 5, {.pad = 2}});
  const Passes expected = by_engine(in);
  const Conv2dOptions opt{.pad = 2, .groups = 20};
  for (const bool exact : {false, true}) {
    cpu::set_conv_exact(exact);
    CHECK(conv2d_weight_grad(in.dy, in.x, in.w.shape(), opt).to_vector<double>() == expected.dw);
  }
  cpu::set_conv_exact(false);
}
