// The portable convolution kernels of ops/conv/conv2d_cuda.cu against the CPU's, over the op's case
// table.
#include "lathe/ops/conv2d.h"

#include "../ops/conv2d_cases.h"
#include "lathe/ops/conv/conv2d_cuda.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// f32 sums in another order: 1e-4 as the rule for products says.
double tolerance(DType dtype) { return dtype == kF32 ? 1e-4 : tolerance_of(dtype); }

void check_close(const Tensor& got, const Tensor& want, const std::string& name) {
  CHECK_MESSAGE(got.strides() == want.strides(), name);
  const std::string text = difference(on_host(got), want, tolerance(want.dtype()));
  CHECK_MESSAGE(text.empty(), name, ": ", text);
}

/// All three passes. `x_format`, `dy_format`, `w_format`: how they lie in memory.
void compare(const Conv2dCase& c, DType dtype, MemoryFormat x_format, MemoryFormat dy_format,
             MemoryFormat w_format = kContiguous) {
  const Conv2dGeometry g = conv2d_geometry("test", c.x, c.w, c.opt);
  const auto random = [&](const Shape& shape) { return randn(shape, {.dtype = dtype}); };
  const Tensor x = random(c.x).contiguous(x_format), w = random(c.w).contiguous(w_format);
  const Tensor dy = random(g.y_shape()).contiguous(dy_format), bias = random({2 * g.K});
  const Tensor d_x = on_device(x), d_w = on_device(w), d_dy = on_device(dy);
  const std::string name = concat(c.name, " ", dtype, x_format == kContiguous ? "" : " NHWC");
  const Tensor every_second = x_format == kContiguous ? bias.slice(0, 0, 2 * g.K, 2) : Tensor();
  const Tensor d_bias = every_second.defined() ? on_device(every_second) : Tensor();
  check_close(cuda::portable_conv2d_forward(g, d_x, d_w, d_bias),
              cpu::conv2d_forward(g, x, w, every_second), name);
  check_close(cuda::portable_conv2d_backward_input(g, d_dy, d_w),
              cpu::conv2d_backward_input(g, dy, w), name + " input gradient");
  check_close(cuda::portable_conv2d_backward_weight(g, d_dy, d_x, w_format),
              cpu::conv2d_backward_weight(g, dy, x, w_format), name + " weight gradient");
}

}  // namespace

TEST_CASE("conv2d kernels: all passes agree with the CPU for every case and order") {
  manual_seed(63);
  for (const Conv2dCase& c : kConv2dCases) {
    compare(c, kF32, kContiguous, kContiguous);
    compare(c, kF32, kChannelsLast, kChannelsLast);
  }
}

TEST_CASE("conv2d kernels: every dtype, mixed orders, several tiles and parts") {
  manual_seed(64);
  for (const DType dtype : {kF16, kBF16, kF64}) {
    for (const Conv2dCase& c : {kConv2dCases[1], kConv2dCases[8]}) {
      compare(c, dtype, kContiguous, kContiguous);
      compare(c, dtype, kChannelsLast, kChannelsLast);
    }
  }
  compare(kConv2dCases[0], kF32, kChannelsLast, kContiguous);
  compare(kConv2dCases[0], kF32, kContiguous, kChannelsLast);
  compare(kConv2dCases[0], kF32, kChannelsLast, kChannelsLast, kChannelsLast);
  compare({"several tiles", {2, 3, 7, 7}, {66, 3, 3, 3}, {.pad = 1}}, kF32, kContiguous,
          kContiguous);
  compare({"several parts", {1, 2, 23, 23}, {3, 2, 2, 2}, {.pad = 0}}, kF64, kChannelsLast,
          kChannelsLast);
}

TEST_CASE("conv2d kernels: transposed, sliced and expanded operands") {
  manual_seed(65);
  const Conv2dCase& c = kConv2dCases[0];
  const Conv2dGeometry g = conv2d_geometry("test", c.x, c.w, c.opt);
  for (const Layout& layout : layouts()) {
    const Tensor x = layout.apply(randn(c.x)), w = layout.apply(randn(c.w));
    const Tensor dy = layout.apply(randn(g.y_shape()));
    check_close(cuda::portable_conv2d_forward(g, on_device(x), on_device(w), {}),
                cpu::conv2d_forward(g, x, w, {}), layout.name);
    check_close(cuda::portable_conv2d_backward_input(g, on_device(dy), on_device(w)),
                cpu::conv2d_backward_input(g, dy, w), layout.name + " input gradient");
    check_close(cuda::portable_conv2d_backward_weight(g, on_device(dy), on_device(x)),
                cpu::conv2d_backward_weight(g, dy, x), layout.name + " weight gradient");
  }
  const Tensor one = randn({1, 1, 1, 1}).expand(g.y_shape());  // the gradient of a sum
  check_close(cuda::portable_conv2d_backward_input(g, on_device(one), on_device(ones(c.w))),
              cpu::conv2d_backward_input(g, one, ones(c.w)), "expanded");
}
