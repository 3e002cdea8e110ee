// Convolution, sum and relu: one op or several. Contract: fused_conv2d.h.
#include "lathe/ops/fused_conv2d.h"

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/unary.h"

namespace lathe {

namespace {

/// The ops one by one.
Tensor composed(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                const Conv2dEpilogue& then) {
  Tensor y = conv2d(x, w, opt);
  if (then.residual.defined()) {
    // add() would stretch a residual, or promote it.
    LATHE_CHECK(ShapeError, then.residual.shape() == y.shape(),
                "fused_conv2d: residual must be the convolution's ", y.shape(),
                " (residual: ", then.residual, ", x: ", x, ", w: ", w, ")");
    if (amp::autocast_enabled(y.device())) {  // y is half, whatever x is
      LATHE_CHECK(DTypeError, is_floating(then.residual.dtype()),
                  "fused_conv2d: residual must be of floating numbers (residual: ", then.residual,
                  ", x: ", x, ", w: ", w, ")");
    } else {
      check_operands("fused_conv2d", OperandDType::kFloating, "residual", then.residual, "x", x);
    }
    y = add(y, then.residual);
  }
  return then.relu ? relu(y) : y;
}

bool is_recorded(const Tensor& t) { return t.defined() && grad_enabled() && t.requires_grad(); }

bool is_plain(const Tensor& t) {
  return !t.defined() || (t.device().is_cpu() && t.dtype() == kF32 && !is_recorded(t));
}

/// One kernel, or undefined.
Tensor on_gpu(const Tensor& x_in, const Tensor& w_in, const Conv2dOptions& opt_in,
              const Conv2dEpilogue& then) {
  if constexpr (kHasCuda) {
    // The first call of checkpoint() must have the bits of the second one, which is recorded.
    if (!x_in.device().is_cuda() || is_recorded(x_in) || is_recorded(w_in) ||
        is_recorded(opt_in.bias) || is_recorded(then.residual) ||
        autograd::current_mode().would_record != nullptr)
      return {};
    const cuda::DeviceScope on(x_in.device(), "fused_conv2d");
    const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, opt_in.bias);
    Conv2dOptions opt = opt_in;
    opt.bias = bias;
    const Tensor y = cuda::fused_conv2d(x, w, opt, then);
    if (y.defined()) {
      autograd::record("fused_conv2d", y, {x, w, bias, then.residual},  // no input needs any
                       [](const Tensor&, const autograd::Needs&) { return Tensors{}; });
    }
    return y;
  }
  return {};
}

}  // namespace

Tensor fused_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                    const Conv2dEpilogue& then) {
  const profile::OpRange range("fused_conv2d", {x, w, opt.bias, then.residual});
  profile::note_arguments(opt, then);
  const bool one_op = x.ndim() == 4 && is_plain(x) && is_plain(w) && is_plain(opt.bias) &&
                      is_plain(then.residual) && !amp::autocast_enabled(kCPU);
  if (Tensor y = on_gpu(x, w, opt, then); y.defined()) return y;
  check_floating("fused_conv2d", x);
  if (!one_op) return composed(x, w, opt, then);
  check_operands("fused_conv2d", OperandDType::kFloating, "x", x, "w", w);
  const Conv2dGeometry g = conv2d_geometry("fused_conv2d", x.shape(), w.shape(), opt);
  check_conv_bias("fused_conv2d", opt.bias, w, g.K);
  LATHE_CHECK(ShapeError, !then.residual.defined() || then.residual.shape() == g.y_shape(),
              "fused_conv2d: residual must be the convolution's ", g.y_shape(),
              " (residual: ", then.residual, ", x: ", x, ", w: ", w, ")");
  profile::note_flops([&] { return g.flops(); });
  Tensor y = cpu::fused_conv2d_forward(g, x, w, opt.bias, then);
  autograd::record("fused_conv2d", y, {x, w, opt.bias, then.residual},  // no input needs any
                   [](const Tensor&, const autograd::Needs&) { return Tensors{}; });
  return y;
}

}  // namespace lathe
