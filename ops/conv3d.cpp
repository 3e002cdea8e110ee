// 3-d convolution as a conv2d: the T planes of a window along the depth become channels. conv2d
// brings the gradients. Contract: conv3d.h.
#include "lathe/ops/conv3d.h"

#include <algorithm>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// Refuses all that conv2d would refuse, but names the shapes that the caller knows.
/// → the depth of the result
int64_t check(const Tensor& x, const Tensor& w, const Conv3dOptions& opt) {
  check_operands("conv3d", OperandDType::kFloating, "x", x, "w", w);
  LATHE_CHECK(ShapeError, x.ndim() == 5 && w.ndim() == 5,
              "conv3d: x and w must be [N,C,D,H,W] and [K,C/groups,T,R,S] (x: ", x, ", w: ", w,
              ")");
  const auto& [bias, stride, pad, dilation, groups] = opt;
  check_conv("conv3d", Shape{x.dim(0), x.dim(1), x.dim(2)}, Shape{w.dim(0), w.dim(1), w.dim(2)},
             stride.depth, pad.depth, dilation.depth, groups);
  check_conv("conv3d", Shape{x.dim(0), x.dim(1), x.dim(3), x.dim(4)},
             Shape{w.dim(0), w.dim(1), w.dim(3), w.dim(4)}, stride.plane, pad.plane, dilation.plane,
             groups);
  conv_output_size("conv3d", "rows", x.dim(3), w.dim(3), stride.plane.rows, pad.plane.rows,
                   dilation.plane.rows);
  conv_output_size("conv3d", "columns", x.dim(4), w.dim(4), stride.plane.cols, pad.plane.cols,
                   dilation.plane.cols);
  check_conv_bias("conv3d", bias, w, w.dim(0));
  return conv_output_size("conv3d", "planes", x.dim(2), w.dim(2), stride.depth, pad.depth,
                          dilation.depth);
}

/// The planes [N,C,E,H,W] of x [N,C,D,H,W] that tap `tap` of each window reads; zeros where the tap
/// lies in the padding. The padding itself, which may be large, is never in memory.
Tensor planes_of_tap(const Tensor& x, int64_t tap, int64_t depth, const Conv3dOptions& opt) {
  const int64_t stride = opt.stride.depth;
  const int64_t first = tap * opt.dilation.depth - opt.pad.depth;  // the plane of window 0
  const int64_t begin = first >= 0 ? 0 : std::min(depth, (-first + stride - 1) / stride);
  const int64_t after = x.dim(2) - first;  // planes from `first` on
  const int64_t end = after <= 0 ? begin : std::clamp((after - 1) / stride + 1, begin, depth);
  if (begin == end) return zeros({x.dim(0), x.dim(1), depth, x.dim(3), x.dim(4)}, x.options());
  const int64_t from = first + begin * stride, to = first + (end - 1) * stride + 1;
  const Tensor planes = slice(x, 2, from, to, stride);
  if (begin == 0 && end == depth) return planes;
  return pad(planes, {0, 0, 0, 0, begin, depth - end});
}

/// The planes of each window as channels: [N*E,G*T*C/G,H,W] of x [N,C,D,H,W].
Tensor planes_as_channels(const Tensor& x, int64_t taps, int64_t depth, const Conv3dOptions& opt) {
  const int64_t n = x.dim(0), c = x.dim(1), h = x.dim(3), w = x.dim(4), groups = opt.groups;
  Tensors planes;
  for (int64_t tap = 0; tap < taps; ++tap) {
    planes.push_back(
        reshape(planes_of_tap(x, tap, depth, opt), {n, groups, c / groups, depth, h, w}));
  }
  const Tensor all = stack(planes, 2);  // [N,G,T,C/G,E,H,W]
  return reshape(permute(all, {0, 4, 1, 2, 3, 5, 6}), {n * depth, taps * c, h, w});
}

}  // namespace

Tensor conv3d(const Tensor& x_in, const Tensor& w_in, const Conv3dOptions& opt) {
  if (x_in.ndim() == 4) return squeeze(conv3d(unsqueeze(x_in, 0), w_in, opt), 0);
  const profile::OpRange range("conv3d", {x_in, w_in, opt.bias});
  const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, opt.bias);
  Conv3dOptions cast = opt;
  cast.bias = bias;
  const int64_t depth = check(x, w, cast), taps = w.dim(2);
  const Tensor filters =
      reshape(permute(w, {0, 2, 1, 3, 4}), {w.dim(0), taps * w.dim(1), w.dim(3), w.dim(4)});
  const Tensor y = conv2d(planes_as_channels(x, taps, depth, cast), filters,
                          {.bias = bias,
                           .stride = opt.stride.plane,
                           .pad = opt.pad.plane,
                           .dilation = opt.dilation.plane,
                           .groups = opt.groups});
  const Tensor split = reshape(y, {x.dim(0), depth, y.dim(1), y.dim(2), y.dim(3)});
  return permute(split, {0, 2, 1, 3, 4}).contiguous();
}

}  // namespace lathe
