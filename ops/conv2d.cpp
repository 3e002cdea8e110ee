// Convolution and its two adjoints: checks, dispatch and gradients. Each of the three is linear in
// both of its arguments, and each one's gradients are the other two. Contracts: conv2d.h.
#include "lathe/ops/conv2d.h"

#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/unmeasured.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/conv/conv2d_block_end.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::record;
using autograd::Saved;

static void check_dy(const char* op, const Tensor& dy, const Conv2dGeometry& g) {
  LATHE_CHECK(ShapeError, dy.shape() == g.y_shape(), op, ": dy must be ", g.y_shape(),
              ", the convolution of ", g.x_shape(), " with ", g.w_shape(), " (dy: ", dy, ")");
}

/// The options that the gradients need: all but the bias.
static Conv2dOptions without_bias(Conv2dOptions opt) {
  opt.bias = {};
  return opt;
}

/// The order of w's gradient: that of w, so that optimisers can combine both element by element.
static Tensor weight_grad_like(const Tensor& w, const Tensor& dy, const Tensor& x,
                               const Conv2dOptions& opt) {
  return conv2d_weight_grad(dy, x, w.shape(), opt, memory_format_of(w));
}

/// The gradient of x. On a GPU one kernel may go on through the end of the block that made x.
static Tensor input_grad(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                         const Conv2dOptions& opt) {
  if constexpr (kHasCuda) {
    if (dy.device().is_cuda() && tries(Unmeasured::kResidualGrad)) {
      Tensor dx = cuda::conv2d_backward_to_block_end(dy, w, x_shape, opt);
      if (dx.defined()) return dx;
    }
  }
  return conv2d_input_grad(dy, w, x_shape, opt);
}

/// The values. In training a convolution without a bias is likely to have a batch norm behind it,
/// for which the kernel can leave sums (on a CPU mean and variance).
static Tensor forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                      Tensor& sums) {
  if (!bias.defined() && autograd::may_record()) {
    if (x.device() == kCPU) return cpu::conv2d_forward_with_moments(g, x, w, sums);
    if constexpr (kHasCuda) {
      const cuda::DeviceScope on(x.device(), "conv2d_forward(g, x, w, bias)");
      return cuda::conv2d_forward_with_sums(g, x, w, sums);
    }
  }
  return LATHE_DISPATCH(x.device(), conv2d_forward(g, x, w, bias));
}

Tensor conv2d(const Tensor& x_in, const Tensor& w_in, const Conv2dOptions& opt) {
  if (x_in.ndim() == 3) return squeeze(conv2d(unsqueeze(x_in, 0), w_in, opt), 0);
  const profile::OpRange range("conv2d", {x_in, w_in, opt.bias});
  profile::note_arguments(opt);
  const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, opt.bias);
  check_operands("conv2d", OperandDType::kFloating, "x", x, "w", w);
  const Conv2dGeometry g = conv2d_geometry("conv2d", x.shape(), w.shape(), opt);
  check_conv_bias("conv2d", bias, w, g.K);
  profile::note_flops([&] { return g.flops(); });
  Tensor sums;
  Tensor y = forward(g, x, w, bias, sums);

  const auto gradient = [x = Saved(x), w = Saved(w), x_shape = x.shape(), opt = without_bias(opt)](
                            const Tensor& dy, const Needs& need) {
    Tensor dx, dw, db;  // stay undefined if not needed
    // In this order, so that x is gone before dx comes if it was computed again.
    if (need[1]) dw = weight_grad_like(w.get(), dy, x.get(), opt);
    if (need[0]) dx = input_grad(dy, w.get(), x_shape, opt);
    if (need[2]) db = sum(dy, {0, 2, 3});
    return Tensors{dx, dw, db};
  };
  if (bias.defined()) {
    record("conv2d", y, {x, w, bias}, gradient);
  } else {
    record("conv2d", y, {x, w}, gradient);
  }
  if (sums.defined()) autograd::set_companion(y, sums);
  return y;
}

Tensor conv2d_input_grad(const Tensor& dy_in, const Tensor& w_in, const Shape& x_shape,
                         const Conv2dOptions& opt) {
  const profile::OpRange range("conv2d_input_grad", {dy_in, w_in});
  const auto [dy, w] = amp::cast(amp::kHalf, dy_in, w_in);
  check_operands("conv2d_input_grad", OperandDType::kFloating, "dy", dy, "w", w);
  const Conv2dGeometry g = conv2d_geometry("conv2d_input_grad", x_shape, w.shape(), opt);
  check_dy("conv2d_input_grad", dy, g);
  profile::note_flops([&] { return g.flops(); });
  Tensor dx = LATHE_DISPATCH(dy.device(), conv2d_backward_input(g, dy, w));

  record(
      "conv2d_input_grad", dx, {dy, w},
      [dy = Saved(dy), w = Saved(w), opt = without_bias(opt)](const Tensor& d, const Needs& need) {
        Tensor d_dy, d_w;
        if (need[0]) d_dy = conv2d(d, w.get(), opt);
        if (need[1]) d_w = weight_grad_like(w.get(), dy.get(), d, opt);
        return Tensors{d_dy, d_w};
      });
  return dx;
}

Tensor conv2d_weight_grad(const Tensor& dy_in, const Tensor& x_in, const Shape& w_shape,
                          const Conv2dOptions& opt, MemoryFormat w_format) {
  const profile::OpRange range("conv2d_weight_grad", {dy_in, x_in});
  const auto [dy, x] = amp::cast(amp::kHalf, dy_in, x_in);
  check_operands("conv2d_weight_grad", OperandDType::kFloating, "dy", dy, "x", x);
  const Conv2dGeometry g = conv2d_geometry("conv2d_weight_grad", x.shape(), w_shape, opt);
  check_dy("conv2d_weight_grad", dy, g);
  profile::note_flops([&] { return g.flops(); });
  Tensor dw = LATHE_DISPATCH(dy.device(), conv2d_backward_weight(g, dy, x, w_format));

  record(
      "conv2d_weight_grad", dw, {dy, x},
      [dy = Saved(dy), x = Saved(x), opt = without_bias(opt)](const Tensor& d, const Needs& need) {
        Tensor d_dy, d_x;
        if (need[0]) d_dy = conv2d(x.get(), d, opt);
        if (need[1]) d_x = conv2d_input_grad(dy.get(), d, x.get().shape(), opt);
        return Tensors{d_dy, d_x};
      });
  return dw;
}

}  // namespace lathe
