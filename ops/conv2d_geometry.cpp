// Shape rules of the convolution; see conv2d_geometry.h.
#include "lathe/ops/conv2d_geometry.h"

#include "lathe/core/checked_size.h"
#include "lathe/ops/conv2d.h"

namespace lathe {

/// floor((in + 2*pad - dilation*(kernel-1) - 1) / stride) + 1 along one axis.
static int64_t output_size(const char* op, const char* axis, int64_t in, int64_t kernel,
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
  LATHE_CHECK(ValueError, opt.stride > 0, op, ": stride must be positive, got ", opt.stride);
  LATHE_CHECK(ValueError, opt.pad >= 0, op, ": pad must not be negative, got ", opt.pad);
  LATHE_CHECK(ValueError, opt.dilation > 0, op, ": dilation must be positive, got ", opt.dilation);
  LATHE_CHECK(ValueError, opt.groups > 0, op, ": groups must be positive, got ", opt.groups);
  LATHE_CHECK(ShapeError, w[2] > 0 && w[3] > 0, op, ": the kernel is empty (w: ", w, ")");
  LATHE_CHECK(ShapeError, w[0] % opt.groups == 0, op, ": ", w[0],
              " output channels do not divide into ", opt.groups, " groups (w: ", w, ")");
  LATHE_CHECK(ShapeError, x[1] == w[1] * opt.groups, op, ": x has ", x[1],
              " channels but w expects ", w[1] * opt.groups, " (x: ", x, ", w: ", w,
              ", groups=", opt.groups, ")");
  return {
      .N = x[0],
      .C = x[1],
      .H = x[2],
      .W = x[3],
      .K = w[0],
      .R = w[2],
      .S = w[3],
      .P = output_size(op, "rows", x[2], w[2], opt.stride.rows, opt.pad.rows, opt.dilation.rows),
      .Q = output_size(op, "columns", x[3], w[3], opt.stride.cols, opt.pad.cols, opt.dilation.cols),
      .stride = opt.stride,
      .pad = opt.pad,
      .dilation = opt.dilation,
      .groups = opt.groups};
}

MemoryFormat conv2d_format(const Tensor& x) {
  if (!x.is_contiguous(kChannelsLast)) return kContiguous;
  const bool open = x.is_contiguous();
  const bool written_so = x.strides() == channels_last_strides(x.shape()) &&
                          !(x.strides() == contiguous_strides(x.shape()));
  return !open || written_so ? kChannelsLast : kContiguous;
}

}  // namespace lathe
