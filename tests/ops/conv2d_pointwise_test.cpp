// 1x1 convolutions by our own products against f64, whose passes are matrix products of another
// library (conv2d_im2col_cpu.cpp): all passes, strides, ragged blocks, numbers of threads; and which
// sizes they are chosen for.
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/tests/threads_scope.h"
#include "moments_error.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct PointwiseCase {
  const char* name;
  Shape x;
  int64_t out;
  Pair stride = 1;
};

const PointwiseCase kCases[] = {
    {"one block", {1, 16, 5, 7}, 16},
    {"one pixel", {1, 32, 1, 1}, 48},
    {"ResNet-50, to more channels", {2, 64, 14, 14}, 256},
    {"several blocks on all sides", {3, 272, 15, 14}, 336},
    {"several blocks and parts", {3, 272, 18, 17}, 336},
    {"no whole panel", {2, 144, 9, 9}, 80},
    {"filters that fill half of a second-level cache", {2, 512, 5, 5}, 512},
    {"one channel to one", {1, 1, 5, 7}, 1},
    {"one channel less than a vector, and one more", {2, 15, 5, 7}, 17},
    {"one channel less than a panel, and one more", {3, 63, 9, 9}, 65},
    {"one channel less than a step of the depth, and one more", {2, 127, 11, 9}, 129},
    {"one channel less than a block, and one more", {3, 255, 15, 14}, 257},
    {"odd channels from one pixel", {4, 58, 1, 1}, 7},
    {"odd channels, stride 2", {3, 58, 9, 7}, 116, 2},
    {"stride 2", {2, 64, 14, 14}, 128, 2},
    {"stride 2, odd sizes", {3, 272, 15, 9}, 80, 2},
    {"another stride along rows than along columns", {2, 32, 7, 8}, 16, {3, 1}},
};

struct Operands {
  Tensor x, w, bias, dy;
};

Operands operands_of(const PointwiseCase& c) {
  manual_seed(5);
  const Shape w{c.out, c.x[1], 1, 1};
  const auto g = conv2d_geometry("test", c.x, w, {.stride = c.stride});
  return {randn(c.x).contiguous(kChannelsLast), randn(w), randn({c.out}),
          randn(g.y_shape()).contiguous(kChannelsLast)};
}

struct Passes {
  Tensor y, dx, dw, moments;
};

Passes by_products(const PointwiseCase& c, const Operands& in) {
  const auto g = conv2d_geometry("test", c.x, in.w.shape(), {.stride = c.stride});
  const auto nan = [](const Shape& shape) {  // every element must be written
    return full(shape, NAN, {.dtype = kF32}).contiguous(kChannelsLast);
  };
  Passes p{nan(g.y_shape()), nan(g.x_shape()), nan(g.w_shape()), {}};
  cpu::pointwise_forward(g, p.y, in.x, in.w, in.bias, &p.moments);
  cpu::pointwise_backward_input(g, p.dx, in.dy, in.w);
  cpu::pointwise_backward_weight(g, p.dw, in.dy, in.x);
  return p;
}

}  // namespace

TEST_CASE("pointwise: all passes agree with f64") {
  for (const PointwiseCase& c : kCases) {
    CAPTURE(c.name);
    const Operands in = operands_of(c);
    const Conv2dOptions opt{.stride = c.stride};
    const Tensor x64 = cast(in.x, kF64), w64 = cast(in.w, kF64), dy64 = cast(in.dy, kF64);
    const Tensor y64 = conv2d(x64, w64, {.bias = cast(in.bias, kF64), .stride = c.stride});
    const Passes p = by_products(c, in);
    constexpr double kBound = 2e-6;  // direct sums of up to 630 normal values
    CHECK(relative_error(p.y, y64) <= kBound);
    CHECK(relative_error(p.dx, conv2d_input_grad(dy64, w64, c.x, opt)) <= kBound);
    CHECK(relative_error(p.dw, conv2d_weight_grad(dy64, x64, in.w.shape(), opt)) <= kBound);
    CHECK(moments_error(p.moments, p.y) <= 5e-6);  // f32 sums of 96 values each
    const auto g = conv2d_geometry("test", c.x, in.w.shape(), opt);
    const Tensor unbiased = empty_like(p.y);
    cpu::pointwise_forward(g, unbiased, in.x, in.w, {});
    CHECK(relative_error(unbiased, conv2d(x64, w64, opt)) <= kBound);
  }
}

TEST_CASE("pointwise: any number of threads gives the same bits") {
  for (const PointwiseCase& c : kCases) {
    CAPTURE(c.name);
    const Operands in = operands_of(c);
    const auto values = [&](int threads) {
      const ThreadsScope scope(threads);
      const Passes p = by_products(c, in);
      return std::vector{p.y.to_vector<float>(), p.dx.to_vector<float>(), p.dw.to_vector<float>(),
                         p.moments.to_vector<float>()};
    };
    const auto one = values(1);
    CHECK(values(2) == one);
    CHECK(values(7) == one);
    CHECK(values(16) == one);
  }
}

TEST_CASE("pointwise: conv2d uses it for NHWC tensors, exact or not") {
  const auto takes = [](const Shape& x, const Shape& w, const Conv2dOptions& opt) {
    return cpu::pointwise_takes(conv2d_geometry("test", x, w, opt));
  };
  CHECK(takes({1, 16, 3, 3}, {32, 16, 1, 1}, {.stride = {2, 1}}));
  CHECK(takes({1, 3, 3, 3}, {7, 3, 1, 1}, {}));
  CHECK(!takes({1, 16, 3, 3}, {32, 16, 1, 1}, {.pad = 1}));
  CHECK(!takes({1, 32, 3, 3}, {32, 16, 1, 1}, {.groups = 2}));
  CHECK(!takes({1, 16, 3, 3}, {32, 16, 3, 3}, {}));
  const PointwiseCase c{"", {2, 64, 5, 6}, 48};
  const Operands in = operands_of(c);
  const auto expected = by_products(c, in).y.to_vector<float>();
  for (const bool exact : {false, true}) {
    cpu::set_conv_exact(exact);
    CHECK(conv2d(in.x, in.w, {.bias = in.bias}).to_vector<float>() == expected);
  }
  cpu::set_conv_exact(false);
}

TEST_CASE("moments: a batch norm behind a convolution normalises by what that has left") {
  manual_seed(7);
  const Tensor x = (randn({3, 32, 9, 9}) + 5.0).contiguous(kChannelsLast);
  for (const int64_t side : {1, 3}) {
    CAPTURE(side);
    const Tensor w = randn({48, 32, side, side}).requires_grad_();
    const Conv2dOptions opt{.pad = side / 2};
    const Tensor y = conv2d(x, w, opt), plain = y.detach().clone();
    CHECK(autograd::companion_of(y).defined());
    CHECK(!autograd::companion_of(plain).defined());
    const auto norm = [](const Tensor& t) {
      const Tensor mean = zeros({48}), var = ones({48});
      const Tensor z = batch_norm(t, {}, {}, mean, var, {.training = true});
      return Tensors{z, mean, var};
    };
    const Tensors got = norm(y), want = norm(plain);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(relative_error(got[i].detach(), want[i]) <= 1e-5);
    }
    // Moments of other values are not taken: y is written, and no gradient is recorded.
    const NoGrad off;
    CHECK(!autograd::companion_of(conv2d(x, w, opt)).defined());
    const Tensor kept = autograd::companion_of(y);
    mul_(y, 2.0);
    CHECK(kept.defined());
    CHECK(!autograd::companion_of(y).defined());
  }
}
