// 1-d convolution as a conv2d of one row, which brings the gradients. Contract: conv1d.h.
#include "lathe/ops/conv1d.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"

namespace lathe {

/// Refuses all that conv2d would refuse, but names the shapes that the caller knows.
static void check(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv1dOptions& opt) {
  check_operands("conv1d", OperandDType::kFloating, "x", x, "w", w);
  LATHE_CHECK(ShapeError, x.ndim() == 3 && w.ndim() == 3,
              "conv1d: x and w must be [N,C,W] and [K,C/groups,S] (x: ", x, ", w: ", w, ")");
  check_conv("conv1d", x.shape(), w.shape(), opt.stride, opt.pad, opt.dilation, opt.groups);
  conv_output_size("conv1d", "columns", x.dim(2), w.dim(2), opt.stride, opt.pad, opt.dilation);
  check_conv_bias("conv1d", bias, w, w.dim(0));
}

Tensor conv1d(const Tensor& x_in, const Tensor& w_in, const Conv1dOptions& opt) {
  if (x_in.ndim() == 2) return squeeze(conv1d(unsqueeze(x_in, 0), w_in, opt), 0);
  const profile::OpRange range("conv1d", {x_in, w_in, opt.bias});
  profile::note_arguments(opt);
  const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, opt.bias);
  check(x, w, bias, opt);
  const Tensor y = conv2d(unsqueeze(x, 2), unsqueeze(w, 2),
                          {.bias = bias,
                           .stride = {1, opt.stride},
                           .pad = {0, opt.pad},
                           .dilation = {1, opt.dilation},
                           .groups = opt.groups});
  return squeeze(y, 2);
}

}  // namespace lathe
