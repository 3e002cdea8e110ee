// Quantised ops: checks, and the shapes of results. Contracts: quantized.h.
#include "lathe/ops/quantized.h"

#include <cmath>
#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/memory_format.h"

namespace lathe {

namespace {

bool is_quantized(const Tensor& t) { return t.dtype() == kU8 || t.dtype() == kI8; }

void check_cpu(const char* op, const char* name, const Tensor& t) {
  LATHE_CHECK(DeviceError, !t.defined() || t.device().is_cpu(), op,
              ": quantised tensors are computed on a CPU alone (", name, ": ", t, ")");
}

void check_quantized(const char* op, const char* name, const Tensor& t) {
  LATHE_CHECK(DTypeError, is_quantized(t), op, ": ", name, " must be u8 or i8 (", name, ": ", t,
              ")");
  check_cpu(op, name, t);
}

/// The scale in f32, in which all is computed.
float checked_scale(const char* op, const char* name, double scale) {
  const auto narrow = static_cast<float>(scale);
  LATHE_CHECK(ValueError, narrow > 0 && std::isfinite(narrow), op, ": ", name,
              " must be above 0 and finite in f32, got ", scale);
  return narrow;
}

/// What belongs to each output channel of `w`.
void check_channels(const char* op, const Tensor& w, const Tensor& w_scale, const Tensor& bias) {
  const Shape wanted{w.dim(0)};
  for (const auto& [name, t] : {std::pair{"w_scale", &w_scale}, {"bias", &bias}}) {
    if (!t->defined() && t == &bias) continue;
    LATHE_CHECK(ShapeError, t->defined() && t->shape() == wanted, op, ": ", name, " must be ",
                wanted, " (", name, ": ", *t, ", w: ", w, ")");
    LATHE_CHECK(DTypeError, t->dtype() == kF32, op, ": ", name, " must be f32 (", name, ": ", *t,
                ")");
    check_cpu(op, name, *t);
  }
}

void check_epilogue(const char* op, const QuantizedEpilogue& then, const Shape& y) {
  checked_scale(op, "x_scale", then.x_scale);
  LATHE_CHECK(DTypeError, then.dtype == kU8 || then.dtype == kI8 || then.dtype == kF32, op,
              ": a result is of u8, i8 or f32, not of ", then.dtype);
  if (then.dtype != kF32) checked_scale(op, "y_scale", then.y_scale);
  if (!then.residual.defined()) return;
  checked_scale(op, "residual_scale", then.residual_scale);
  check_quantized(op, "residual", then.residual);
  LATHE_CHECK(ShapeError, then.residual.shape() == y, op, ": residual must be the result's ", y,
              " (residual: ", then.residual, ")");
}

/// What sums and the residual are multiplied by. `w_scale` is dense.
void check_multipliers(const char* op, const Tensor& w_scale, const QuantizedEpilogue& then) {
  const double step = then.dtype == kF32 ? 1 : then.y_scale;
  const float* const scales = w_scale.data<float>();
  for (int64_t k = 0; k < w_scale.numel(); ++k) {
    const auto multiplier = static_cast<float>(then.x_scale * double{scales[k]} / step);
    LATHE_CHECK(ValueError, scales[k] > 0 && std::isfinite(multiplier), op, ": w_scale[", k,
                "] = ", scales[k],
                " must be above 0, and x_scale * w_scale / y_scale finite, with ", "x_scale ",
                then.x_scale, " and y_scale ", then.y_scale);
  }
  if (!then.residual.defined()) return;
  LATHE_CHECK(ValueError, std::isfinite(static_cast<float>(then.residual_scale / step)), op,
              ": residual_scale / y_scale must be finite, with residual_scale ",
              then.residual_scale, " and y_scale ", then.y_scale);
}

/// x * w fits 32 bits in any order of additions.
void check_products(const char* op, int64_t count, const Tensor& w) {
  constexpr int64_t kMost = 65536;  // of 255 * 128
  LATHE_CHECK(ShapeError, count <= kMost, op, ": sums of ", count,
              " products may not fit 32 bits; ", kMost, " do (w: ", w, ")");
}

/// Tells who watches that y is the result. No gradient goes through it.
Tensor recorded(const char* op, const Tensor& y) {
  autograd::record(op, y, Tensors{},
                   [](const Tensor&, const autograd::Needs&) { return Tensors{}; });
  return y;
}

/// [rows, columns] as an image of `rows` pixels in NHWC.
Tensor as_pixels(const Tensor& t, int64_t rows, int64_t columns) {
  return alias(t, {1, columns, rows, 1}, {rows * columns, 1, columns, columns}, t.offset());
}

}  // namespace

Tensor quantize(const Tensor& x_in, double scale, DType dtype) {
  const profile::OpRange range("quantize", {x_in});
  profile::note_arguments(scale, dtype);
  LATHE_CHECK(DTypeError, is_floating(x_in.dtype()), "quantize: x must be floating (x: ", x_in,
              ")");
  LATHE_CHECK(DTypeError, dtype == kU8 || dtype == kI8, "quantize: dtype must be u8 or i8, got ",
              dtype);
  check_cpu("quantize", "x", x_in);
  const float step = checked_scale("quantize", "scale", scale);
  const Tensor x = contiguous(cast(x_in.detach(), kF32), memory_format_of(x_in));
  const Tensor y = empty_strided(x.shape(), x.strides(), dtype, kCPU);
  cpu::quantize(y, x, step);
  return recorded("quantize", y);
}

Tensor dequantize(const Tensor& q_in, double scale) {
  const profile::OpRange range("dequantize", {q_in});
  profile::note_arguments(scale);
  check_quantized("dequantize", "q", q_in);
  const float step = checked_scale("dequantize", "scale", scale);
  const Tensor q = contiguous(q_in, memory_format_of(q_in));
  const Tensor y = empty_strided(q.shape(), q.strides(), kF32, kCPU);
  cpu::dequantize(y, q, step);
  return recorded("dequantize", y);
}

Tensor quantized_conv2d(const Tensor& x, const Tensor& w, const Tensor& w_scale,
                        const Conv2dOptions& opt, const QuantizedEpilogue& then) {
  const char* const op = "quantized_conv2d";
  const profile::OpRange range(op, {x, w, w_scale, opt.bias, then.residual});
  profile::note_arguments(opt, then);
  check_quantized(op, "x", x);
  LATHE_CHECK(DTypeError, w.dtype() == kI8, op, ": w must be i8 (w: ", w, ")");
  check_cpu(op, "w", w);
  LATHE_CHECK(ShapeError, x.ndim() == 4 && w.ndim() == 4, op,
              ": x and w must be [N,C,H,W] and [K,C,R,S] (x: ", x, ", w: ", w, ")");
  const Conv2dGeometry g = conv2d_geometry(op, x.shape(), w.shape(), opt);
  check_products(op, g.taps(), w);
  check_channels(op, w, w_scale, opt.bias);
  check_epilogue(op, then, g.y_shape());
  profile::note_flops([&] { return g.flops(); });
  QuantizedEpilogue dense = then;
  if (then.residual.defined()) dense.residual = contiguous(then.residual, kChannelsLast);
  const Tensor bias = opt.bias.defined() ? contiguous(opt.bias.detach()) : Tensor();
  const Tensor scales = contiguous(w_scale.detach());
  check_multipliers(op, scales, then);
  return recorded(op, cpu::quantized_conv2d(g, contiguous(x, kChannelsLast), contiguous(w), scales,
                                            bias, dense));
}

Tensor quantized_linear(const Tensor& x, const Tensor& w, const Tensor& w_scale, const Tensor& bias,
                        const QuantizedEpilogue& then) {
  const char* const op = "quantized_linear";
  const profile::OpRange range(op, {x, w, w_scale, bias, then.residual});
  profile::note_arguments(then);
  check_quantized(op, "x", x);
  LATHE_CHECK(DTypeError, w.dtype() == kI8, op, ": w must be i8 (w: ", w, ")");
  check_cpu(op, "w", w);
  LATHE_CHECK(ShapeError, w.ndim() == 2 && x.ndim() >= 1 && x.dim(-1) == w.dim(1), op,
              ": x and w must be [...,in] and [out,in] (x: ", x, ", w: ", w, ")");
  Shape shape;
  for (int d = 0; d + 1 < x.ndim(); ++d) shape.push_back(x.dim(d));
  const int64_t rows = numel_of(shape), in = w.dim(1), out = w.dim(0);
  shape.push_back(out);
  numel_of(shape);  // throws if there are too many
  check_products(op, in, w);
  check_channels(op, w, w_scale, bias);
  check_epilogue(op, then, shape);
  QuantizedEpilogue dense = then;
  if (then.residual.defined()) dense.residual = as_pixels(contiguous(then.residual), rows, out);
  const Conv2dGeometry g{.N = 1,
                         .C = in,
                         .H = rows,
                         .W = 1,
                         .K = out,
                         .R = 1,
                         .S = 1,
                         .P = rows,
                         .Q = 1,
                         .stride = 1,
                         .pad = 0,
                         .dilation = 1,
                         .groups = 1};
  profile::note_flops([&] { return g.flops(); });
  const Tensor filters = contiguous(w), scales = contiguous(w_scale.detach());
  check_multipliers(op, scales, then);
  const Tensor y =
      cpu::quantized_conv2d(g, as_pixels(contiguous(x), rows, in),
                            alias(filters, {out, in, 1, 1}, {in, 1, 1, 1}, filters.offset()),
                            scales, bias.defined() ? contiguous(bias.detach()) : Tensor(), dense);
  return recorded(op, alias(y, shape, contiguous_strides(shape), y.offset()));
}

Tensor quantized_max_pool2d(const Tensor& x_in, const MaxPool2dOptions& options) {
  const char* const op = "quantized_max_pool2d";
  const profile::OpRange range(op, {x_in});
  profile::note_arguments(options);
  check_quantized(op, "x", x_in);
  LATHE_CHECK(ShapeError, x_in.ndim() == 4, op, ": x must be [N,C,H,W] (x: ", x_in, ")");
  MaxPool2dOptions opt = options;
  const Pair size = detail::max_pool2d_size(op, x_in, opt);
  const Shape shape{x_in.dim(0), x_in.dim(1), size.rows, size.cols};
  const Tensor x = contiguous(x_in, kChannelsLast);
  const Tensor y = empty_in(kChannelsLast, shape, x.dtype(), kCPU);
  cpu::quantized_max_pool2d(y, x, opt);
  return recorded(op, y);
}

}  // namespace lathe
