// Transposed convolution: shapes and checks. The gradients are those of conv2d_input_grad and add.
// Contract: conv_transpose2d.h.
#include "lathe/ops/conv_transpose2d.h"

#include <algorithm>

#include "lathe/core/checked_size.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"

namespace lathe {

/// (in - 1)*stride - 2*pad + dilation*(kernel - 1) + output_pad + 1 along one axis.
static int64_t output_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                           int64_t dilation, int64_t output_pad) {
  LATHE_CHECK(ValueError, output_pad >= 0 && output_pad < std::max(stride, dilation),
              "conv_transpose2d: output_pad must be at least 0 and below stride or dilation, got ",
              output_pad, " with stride ", stride, " and dilation ", dilation);
  const int64_t size =
      (CheckedSize(in - 1) * stride - CheckedSize(2) * pad + CheckedSize(dilation) * (kernel - 1) +
       output_pad + 1)
          .value_or_throw<ShapeError>("conv_transpose2d: the output size does not fit an int64");
  LATHE_CHECK(ShapeError, in > 0 && size > 0, "conv_transpose2d: an input of ", in, " with pad ",
              pad, " gives an output of ", size);
  return size;
}

/// Turns an output pad of the stride or more into one below the stride: x gets rows and columns of
/// zeros at its end, each of which adds a stride to the result.
static Tensor with_zero_rows(const Tensor& x, const ConvTranspose2dOptions& opt) {
  const int64_t rows = opt.output_pad.rows / opt.stride.rows;
  const int64_t cols = opt.output_pad.cols / opt.stride.cols;
  return rows == 0 && cols == 0 ? x : pad(x, {0, cols, 0, rows});
}

Tensor conv_transpose2d(const Tensor& x_in, const Tensor& w_in, const ConvTranspose2dOptions& opt) {
  if (x_in.ndim() == 3) {
    return squeeze(conv_transpose2d(unsqueeze(x_in, 0), w_in, opt), 0);
  }
  const profile::OpRange range("conv_transpose2d", {x_in, w_in, opt.bias});
  profile::note_arguments(opt);
  const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, opt.bias);
  check_operands("conv_transpose2d", OperandDType::kFloating, "x", x, "w", w);
  LATHE_CHECK(ShapeError, x.ndim() == 4 && w.ndim() == 4 && w.dim(2) > 0 && w.dim(3) > 0,
              "conv_transpose2d: x and w must be [N,C,H,W] and [C,K/groups,R,S] (x: ", x,
              ", w: ", w, ")");
  LATHE_CHECK(ShapeError, x.dim(1) == w.dim(0), "conv_transpose2d: x has ", x.dim(1),
              " channels but w expects ", w.dim(0), " (x: ", x, ", w: ", w, ")");
  LATHE_CHECK(
      ValueError, opt.stride > 0 && opt.dilation > 0 && opt.pad >= 0 && opt.groups > 0,
      "conv_transpose2d: stride, dilation and groups must be positive and pad not negative, "
      "got stride=",
      opt.stride, ", dilation=", opt.dilation, ", groups=", opt.groups, ", pad=", opt.pad);
  const int64_t channels =
      (CheckedSize(w.dim(1)) * opt.groups)
          .value_or_throw<ShapeError>("conv_transpose2d: ", opt.groups, " groups of ", w.dim(1),
                                      " channels do not fit an int64");
  check_conv_bias("conv_transpose2d", bias, w, channels);
  const Shape y_shape{x.dim(0), channels,
                      output_size(x.dim(2), w.dim(2), opt.stride.rows, opt.pad.rows,
                                  opt.dilation.rows, opt.output_pad.rows),
                      output_size(x.dim(3), w.dim(3), opt.stride.cols, opt.pad.cols,
                                  opt.dilation.cols, opt.output_pad.cols)};
  const Tensor y = conv2d_input_grad(
      with_zero_rows(x, opt), w, y_shape,
      {.stride = opt.stride, .pad = opt.pad, .dilation = opt.dilation, .groups = opt.groups});
  return bias.defined() ? add(y, view(bias, {channels, 1, 1})) : y;
}

}  // namespace lathe
