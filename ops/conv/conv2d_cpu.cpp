// Convolution on the CPU: brings dtypes and layouts into the form of conv2d_passes_cpu.h.
// Contracts: conv2d.h.
#include <algorithm>
#include <atomic>
#include <climits>

#include "lathe/core/copy.h"
#include "lathe/core/visit.h"
#include "lathe/ops/conv/conv2d_epilogue_cpu.h"
#include "lathe/ops/conv/conv2d_passes_cpu.h"
#include "lathe/ops/conv/conv2d_pointwise_cpu.h"
#include "lathe/ops/conv/conv2d_winograd_cpu.h"
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

/// True where the fast path computes the passes. oneDNN keeps these numbers as int.
static bool fast_path_takes(const Conv2dGeometry& g, DType dtype) {
  constexpr int64_t kMost = INT_MAX;
  const bool fits = std::max({g.stride.rows, g.stride.cols, g.pad.rows, g.pad.cols, g.dilation.rows,
                              g.dilation.cols}) <= kMost;
  return fits && fast_conv2d_takes(dtype);
}

/// The tile of our own Winograd where that computes the pass.
static std::optional<WinogradTile> winograd_for(const Conv2dGeometry& g, MemoryFormat format,
                                                DType dtype, bool constant_filters = false) {
  if (format != kChannelsLast || dtype != kF32 || conv_exact()) return {};
  return winograd_pays(g, constant_filters);
}

/// True where our own products compute a 1x1 convolution.
static bool pointwise_pays(const Conv2dGeometry& g, MemoryFormat format, DType dtype) {
  return format == kChannelsLast && dtype == kF32 && pointwise_takes(g);
}

/// The dtype that the passes compute in. Sums are kept in f32 even where it is bf16. Without tile
/// registers Winograd saves more than products of bf16 do: then it takes copies in f32
/// (docs/conv-performance.md).
static DType arithmetic_of(const Conv2dGeometry& g, const Tensor& t, MemoryFormat format) {
  const bool saves = t.dtype() == kBF16 && !fast_conv2d_has_tiles();
  if (saves && winograd_for(g, format, kF32)) return kF32;
  return fast_path_takes(g, t.dtype()) ? t.dtype() : compute_dtype(t.dtype());
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
  const DType dtype = arithmetic_of(g, x_in, format);
  const Tensor x = dense(x_in, format, dtype);
  const Tensor w = dense(w_in, memory_format_of(w_in), dtype);
  const Tensor bias = dense(bias_in, kContiguous, dtype);
  const Conv2dEpilogue epilogue{dense(then.residual, format, dtype), then.relu};
  const Tensor y = empty_in(format, g.y_shape(), dtype, kCPU);
  const auto tile = winograd_for(g, format, dtype, then.constant_filters);
  if (tile && !g.is_trivial()) {
    winograd_forward(g, *tile, y, x, w, bias, epilogue, moments);
    return rounded(y, x_in.dtype());
  }
  if (g.is_trivial()) {
    fill_values(y, 0);
    if (bias.defined()) copy_values(y, alias(bias, {g.K, 1, 1}, {1, 0, 0}, bias.offset()));
  } else if (pointwise_pays(g, format, dtype)) {
    pointwise_forward(g, y, x, w, bias, moments);
  } else if (fast_path_takes(g, dtype)) {
    fast_conv2d_forward(g, y, x, w, bias);
  } else {
    im2col_forward(g, y, x, w, bias);
  }
  apply_epilogue(y, epilogue);
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
  const DType dtype = arithmetic_of(g, dy_in, format);
  const Tensor dy = dense(dy_in, format, dtype);
  const Tensor w = dense(w_in, memory_format_of(w_in), dtype);
  const Tensor dx = empty_in(format, g.x_shape(), dtype, kCPU);
  if (g.is_trivial()) {
    fill_values(dx, 0);
  } else if (const auto tile = winograd_for(g, format, dtype)) {
    winograd_backward_input(g, *tile, dx, dy, w);
  } else if (pointwise_pays(g, format, dtype)) {
    pointwise_backward_input(g, dx, dy, w);
  } else if (fast_path_takes(g, dtype)) {
    fast_conv2d_backward_input(g, dx, dy, w);
  } else {
    im2col_backward_input(g, dx, dy, w);
  }
  return rounded(dx, dy_in.dtype());
}

Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy_in, const Tensor& x_in,
                              MemoryFormat w_format) {
  const MemoryFormat format = conv2d_format(x_in);
  const DType dtype = arithmetic_of(g, dy_in, format);
  const Tensor dy = dense(dy_in, format, dtype), x = dense(x_in, format, dtype);
  const Tensor dw = empty_in(w_format, g.w_shape(), dtype, kCPU);
  if (g.is_trivial()) {
    fill_values(dw, 0);
  } else if (const auto tile = winograd_for(g, format, dtype)) {
    winograd_backward_weight(g, *tile, dw, dy, x);
  } else if (pointwise_pays(g, format, dtype)) {
    pointwise_backward_weight(g, dw, dy, x);
  } else if (fast_path_takes(g, dtype)) {
    fast_conv2d_backward_weight(g, dw, dy, x);
  } else {
    im2col_backward_weight(g, dw, dy, x);
  }
  return rounded(dw, dy_in.dtype());
}

std::optional<WinogradTile> conv2d_winograd_tile(const Conv2dGeometry& g, const Tensor& x) {
  if (g.is_trivial()) return {};
  return winograd_for(g, conv2d_format(x), x.dtype());
}

}  // namespace lathe::cpu
