// Shape rules of the convolutions and their error messages. Contracts: conv2d_geometry.h.
#include "lathe/ops/conv/conv2d_geometry.h"

#include "lathe/core/checked_size.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/promote.h"

namespace lathe {

void check_conv(const char* op, const Shape& x, const Shape& w, Pair stride, Pair pad,
                Pair dilation, int64_t groups) {
  LATHE_CHECK(ValueError, stride > 0, op, ": stride must be positive, got ", stride);
  LATHE_CHECK(ValueError, pad >= 0, op, ": pad must not be negative, got ", pad);
  LATHE_CHECK(ValueError, dilation > 0, op, ": dilation must be positive, got ", dilation);
  LATHE_CHECK(ValueError, groups > 0, op, ": groups must be positive, got ", groups);
  for (int d = 2; d < w.size(); ++d) {
    LATHE_CHECK(ShapeError, w[d] > 0, op, ": the kernel is empty (w: ", w, ")");
  }
  LATHE_CHECK(ShapeError, w[0] % groups == 0, op, ": ", w[0],
              " output channels do not divide into ", groups, " groups (w: ", w, ")");
  const int64_t channels = (CheckedSize(w[1]) * groups)
                               .value_or_throw<ShapeError>(op, ": ", groups, " groups of ", w[1],
                                                           " channels do not fit an int64");
  LATHE_CHECK(ShapeError, x[1] == channels, op, ": x has ", x[1], " channels but w expects ",
              channels, " (x: ", x, ", w: ", w, ", groups=", groups, ")");
}

void check_conv_bias(const char* op, const Tensor& bias, const Tensor& w, int64_t channels) {
  if (!bias.defined()) return;
  check_operands(op, OperandDType::kFloating, "bias", bias, "w", w);
  LATHE_CHECK(ShapeError, bias.shape() == Shape{channels}, op, ": bias must be [", channels,
              "], one number per output channel (bias: ", bias, ", w: ", w, ")");
}

int64_t conv_output_size(const char* op, const char* axis, int64_t in, int64_t kernel,
                         int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t padded = (CheckedSize(in) + CheckedSize(2) * pad)
                             .value_or_throw<ShapeError>(op, ": ", in, " ", axis, " with pad ", pad,
                                                         " do not fit an int64");
  const int64_t reach =
      (CheckedSize(dilation) * (kernel - 1) + 1)
          .value_or_throw<ShapeError>(op, ": a kernel of ", kernel, " ", axis, " with dilation ",
                                      dilation, " does not fit an int64");
  LATHE_CHECK(ShapeError, reach <= padded, op, ": the kernel spans ", reach, " ", axis,
              " but the padded input has ", padded, " (", in, " + 2*", pad, ")");
  return (padded - reach) / stride + 1;
}

Conv2dGeometry conv2d_geometry(const char* op, const Shape& x, const Shape& w,
                               const Conv2dOptions& opt) {
  LATHE_CHECK(ShapeError, x.size() == 4 && w.size() == 4, op,
              ": x and w must be [N,C,H,W] and [K,C/groups,R,S] (x: ", x, ", w: ", w, ")");
  check_conv(op, x, w, opt.stride, opt.pad, opt.dilation, opt.groups);
  return {.N = x[0],
          .C = x[1],
          .H = x[2],
          .W = x[3],
          .K = w[0],
          .R = w[2],
          .S = w[3],
          .P = conv_output_size(op, "rows", x[2], w[2], opt.stride.rows, opt.pad.rows,
                                opt.dilation.rows),
          .Q = conv_output_size(op, "columns", x[3], w[3], opt.stride.cols, opt.pad.cols,
                                opt.dilation.cols),
          .stride = opt.stride,
          .pad = opt.pad,
          .dilation = opt.dilation,
          .groups = opt.groups};
}

}  // namespace lathe
