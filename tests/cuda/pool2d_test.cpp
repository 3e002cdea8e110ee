// The kernels of ops/window_kernels/pool2d_cuda.cu against the CPU's: equal to the last bit.
#include "lathe/ops/pool2d.h"

#include <limits>

#include "lathe/ops/axis_map.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  MaxPool2dOptions opt;
};
const Case kCases[] = {
    {{2, 3, 8, 9}, {.kernel = 2, .stride = 2}},
    {{2, 8, 7, 7}, {.kernel = 3, .stride = 2, .pad = 1}},  // the ImageNet stem
    {{1, 2, 9, 8}, {.kernel = {3, 2}, .stride = {1, 3}, .pad = {1, 0}}},
    {{1, 16, 6, 5}, {.kernel = 2, .stride = 1, .dilation = 2}},
    {{1, 2, 5, 6}, {.kernel = 3, .stride = 2, .pad = 1, .dilation = 2, .ceil_mode = true}},
    {{1, 1, 1, 1}, {.kernel = 1, .stride = 1}},
    {{0, 3, 4, 4}, {.kernel = 2, .stride = 2}},
};

Shape out_shape(const Case& c) {
  const auto size = [&](int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    return pooled_size(in, {kernel, stride, pad, dilation, c.opt.ceil_mode});
  };
  return {c.x[0], c.x[1],
          size(c.x[2], c.opt.kernel.rows, c.opt.stride.rows, c.opt.pad.rows, c.opt.dilation.rows),
          size(c.x[3], c.opt.kernel.cols, c.opt.stride.cols, c.opt.pad.cols, c.opt.dilation.cols)};
}

Tensor empty_in(MemoryFormat format, const Shape& shape, DType dtype) {
  return empty(shape, {.dtype = dtype}).contiguous(format);
}

void check_equal(const Tensor& got, const Tensor& want, const std::string& name) {
  const std::string text = difference(on_host(got), want, 0);
  CHECK_MESSAGE(text.empty(), name, ": ", text);
}

void compare(const Case& c, const Tensor& x_in, MemoryFormat format) {
  const Tensor x = x_in.contiguous(format), d_x = on_device(x);
  const Shape shape = out_shape(c);
  const std::string name = concat(x, format == kContiguous ? " row-major" : " NHWC");
  const Tensor y = empty_in(format, shape, x.dtype()), index = empty_in(format, shape, kI32);
  const Tensor d_y = on_device(y.clone()), d_index = on_device(index.clone());
  cpu::max_pool2d(y, index, x, c.opt);
  cuda::max_pool2d(d_y, d_index, d_x, c.opt);
  check_equal(d_y, y, "values of " + name);
  check_equal(d_index, index, "places of " + name);
  const Tensor alone = on_device(empty_like(y));
  cuda::max_pool2d(alone, {}, d_x, c.opt);
  check_equal(alone, y, "values without places of " + name);

  const Tensor back = empty_like(y), d_back = on_device(empty_like(y));
  cpu::max_pool2d_gather(back, x, index);
  cuda::max_pool2d_gather(d_back, d_x, d_index);
  check_equal(d_back, back, "gather of " + name);

  const Tensor dy = randn(shape, {.dtype = x.dtype()}).contiguous(format);
  const Tensor dx = empty_like(x), d_dx = on_device(empty_like(x));
  cpu::max_pool2d_scatter(dx, dy, index, c.opt);
  cuda::max_pool2d_scatter(d_dx, on_device(dy), d_index, c.opt);
  check_equal(d_dx, dx, "scatter of " + name);
}

}  // namespace

TEST_CASE("max_pool2d kernels: equal the CPU for every window, order and dtype") {
  manual_seed(51);
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    for (const Case& c : kCases) compare(c, randn(c.x), format);
    for (const DType dtype : {kF16, kBF16, kF64}) {
      compare(kCases[1], randn(kCases[1].x, {.dtype = dtype}), format);
    }
  }
}

TEST_CASE("max_pool2d kernels: ties, NaN and infinities, a window of padding only") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    Tensor x = cast(randint(0, 3, kCases[1].x, {.dtype = kI32}), kF32);
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), inf, -inf, -0.0}) {
      x[0][2][1][1].fill_(value);
      x[1][0][3][4].fill_(value);
      compare(kCases[1], x, format);
    }
    compare(kCases[1], full(kCases[1].x, -inf), format);
    const Case beyond{{1, 4, 2, 2}, {.kernel = 2, .stride = 3, .pad = 1, .ceil_mode = true}};
    compare(beyond, randn(beyond.x), format);
  }
}
