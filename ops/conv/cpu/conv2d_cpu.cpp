// Convolution on the CPU: asks which engine is taken (conv2d_choice_cpu.h), brings dtypes and
// layouts into the form that it takes, and runs it (conv2d_engines_cpu.h). Contracts: conv2d.h.
#include <atomic>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_engines_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_epilogue_cpu.h"
#include "lathe/ops/conv/cpu/packed_weights_cpu.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

static std::atomic<bool> g_conv_exact{false};

void set_conv_exact(bool exact) noexcept { g_conv_exact.store(exact, std::memory_order_relaxed); }
bool conv_exact() noexcept { return g_conv_exact.load(std::memory_order_relaxed); }

/// t itself if it has that order and dtype, else a copy that has.
static Tensor dense(const Tensor& t, MemoryFormat format, DType dtype) {
  if (!t.defined() || (t.dtype() == dtype && t.is_contiguous(format))) return t;
  Tensor copy = empty_in(format, t.shape(), dtype, kCPU);
  copy_values(copy, t);
  return copy;
}

/// A copy of filters. One that is not kept requires a gradient, so that the passes do not keep what
/// they make of it either.
static Tensor copy_of_filters(const Tensor& w, DType dtype, bool is_kept) {
  const autograd::ModeScope off({.grad = false});
  Tensor copy = dense(w, memory_format_of(w), dtype);
  copy.requires_grad_(!is_kept);
  return copy;
}

/// w itself if it is dense and has the dtype, else a copy; of constants in another dtype it is
/// kept.
static Tensor dense_filters(const Tensor& w, DType dtype) {
  if (w.dtype() == dtype && w.is_contiguous(memory_format_of(w))) return w;
  if (w.dtype() == dtype || w.requires_grad()) return copy_of_filters(w, dtype, false);
  return packed_weights(w, dtype, [&] { return copy_of_filters(w, dtype, true); });
}

/// The result, rounded to the dtype of the arguments.
static Tensor rounded(const Tensor& result, DType dtype) {
  if (result.dtype() == dtype) return result;
  Tensor half = empty_like(result, dtype);
  copy_values(half, result);
  return half;
}

/// fused_conv2d_forward; *moments as conv2d_forward_with_moments leaves them, if it is not null.
static Tensor forward_pass(const Conv2dGeometry& g, const Tensor& x_in, const Tensor& w_in,
                           const Tensor& bias_in, const Conv2dEpilogue& then, Tensor* moments) {
  const MemoryFormat format = conv2d_format(x_in);
  const CpuChoice choice = conv2d_choice({.pass = ConvPass::kForward,
                                          .g = g,
                                          .format = format,
                                          .dtype = x_in.dtype(),
                                          .constant_filters = then.constant_filters});
  const DType dtype = choice.dtype;
  const Tensor x = dense(x_in, format, dtype);
  const Tensor w = dense_filters(w_in, dtype);
  const Tensor bias = dense(bias_in, kContiguous, dtype);
  const Conv2dEpilogue epilogue{dense(then.residual, format, dtype), then.relu};
  const Tensor y = empty_in(format, g.y_shape(), dtype, kCPU);
  if (g.is_trivial()) {
    fill_values(y, 0);
    if (bias.defined()) copy_values(y, alias(bias, {g.K, 1, 1}, {1, 0, 0}, bias.offset()));
    apply_epilogue(y, epilogue);
    return rounded(y, x_in.dtype());
  }
  conv2d_forward_by(choice, g, y, x, w, bias, epilogue, moments);
  return rounded(y, x_in.dtype());
}

Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias) {
  return forward_pass(g, x, w, bias, {}, nullptr);
}

Tensor fused_conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                            const Tensor& bias, const Conv2dEpilogue& then) {
  return forward_pass(g, x, w, bias, then, nullptr);
}

Tensor conv2d_forward_with_moments(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                   Tensor& moments) {
  return forward_pass(g, x, w, {}, {}, x.dtype() == kF32 ? &moments : nullptr);
}

Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy_in, const Tensor& w_in) {
  const MemoryFormat format = conv2d_format(dy_in);
  const CpuChoice choice = conv2d_choice({ConvPass::kBackwardInput, g, format, dy_in.dtype()});
  const DType dtype = choice.dtype;
  const Tensor dy = dense(dy_in, format, dtype);
  const Tensor w = dense(w_in, memory_format_of(w_in), dtype);
  const Tensor dx = empty_in(format, g.x_shape(), dtype, kCPU);
  if (g.is_trivial()) {
    fill_values(dx, 0);
    return rounded(dx, dy_in.dtype());
  }
  conv2d_backward_input_by(choice, g, dx, dy, w);
  return rounded(dx, dy_in.dtype());
}

Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy_in, const Tensor& x_in,
                              MemoryFormat w_format) {
  const MemoryFormat format = conv2d_format(x_in);
  const CpuChoice choice = conv2d_choice({ConvPass::kBackwardWeight, g, format, dy_in.dtype()});
  const DType dtype = choice.dtype;
  const Tensor dy = dense(dy_in, format, dtype), x = dense(x_in, format, dtype);
  const Tensor dw = empty_in(w_format, g.w_shape(), dtype, kCPU);
  if (g.is_trivial()) {
    fill_values(dw, 0);
    return rounded(dw, dy_in.dtype());
  }
  conv2d_backward_weight_by(choice, g, dw, dy, x);
  return rounded(dw, dy_in.dtype());
}

}  // namespace lathe::cpu
