// A window of a volume is the product of a window along the depth and one in the planes, and so are
// its largest element, its mean and the number of its elements. Contract: pool3d.h.
#include "lathe/ops/pool3d.h"

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

using Pool = FunctionRef<Tensor(const Tensor& images)>;

/// `in_planes` pools images [N,C*D,H,W], then `along_depth` pools images [N,C,D,P*Q] along D: so
/// the first of several largest elements is the one with the lowest depth, then row, then column.
Tensor pooled(const char* op, const Tensor& x, Pool in_planes, Pool along_depth) {
  check_floating(op, x);
  LATHE_CHECK(ShapeError, x.ndim() == 4 || x.ndim() == 5, op,
              ": x must be [N,C,D,H,W] or [C,D,H,W] (x: ", x, ")");
  if (x.ndim() == 4) return squeeze(pooled(op, unsqueeze(x, 0), in_planes, along_depth), 0);
  const profile::OpRange range(op, {x});
  const int64_t n = x.dim(0), c = x.dim(1), d = x.dim(2);
  const Tensor planes = in_planes(reshape(x, {n, c * d, x.dim(3), x.dim(4)}));
  const int64_t rows = planes.dim(2), columns = planes.dim(3);
  const Tensor y = along_depth(reshape(planes, {n, c, d, rows * columns}));
  return reshape(y, {n, c, y.dim(2), rows, columns});
}

/// Refuses windows that do not fit, in the words of the caller.
void check_windows(const char* op, const Tensor& x, const Triple& kernel, const Triple& pad,
                   const Triple& dilation) {
  if (x.ndim() < 4) return;  // pooled() says so
  const int64_t kernels[] = {kernel.depth, kernel.plane.rows, kernel.plane.cols};
  const int64_t pads[] = {pad.depth, pad.plane.rows, pad.plane.cols};
  const int64_t dilations[] = {dilation.depth, dilation.plane.rows, dilation.plane.cols};
  constexpr const char* kAxes[] = {"planes", "rows", "columns"};
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  for (int i = 0; i < 3; ++i) {
    LATHE_CHECK(ValueError,
                0 < kernels[i] && kernels[i] <= kMost && 0 < dilations[i] &&
                    dilations[i] <= kMost && 0 <= pads[i] && pads[i] <= kernels[i] / 2,
                op, ": the ", kAxes[i], " of a window and their distance must be from 1 to ", kMost,
                ", and the padding at most half of the window (kernel: ", kernels[i],
                ", dilation: ", dilations[i], ", pad: ", pads[i], ")");
    const int64_t span = dilations[i] * (kernels[i] - 1) + 1, size = x.dim(i - 3) + 2 * pads[i];
    LATHE_CHECK(ShapeError, span <= size, op, ": a window spans ", span, " ", kAxes[i],
                " but the padded input has ", size, " (x: ", x, ")");
  }
}

/// Rows for the depth, and each column by itself.
Pair depth_of(const Triple& t, int64_t column) { return {t.depth, column}; }

/// The stride where 0 stands for the kernel's size.
Pair depth_stride(const Triple& stride, const Triple& kernel) {
  return {stride.depth == 0 ? kernel.depth : stride.depth, 1};
}

}  // namespace

Tensor max_pool3d(const Tensor& x, const MaxPool3dOptions& o) {
  check_windows("max_pool3d", x, o.kernel, o.pad, o.dilation);
  return pooled(
      "max_pool3d", x,
      [&](const Tensor& t) {
        return max_pool2d(t, {.kernel = o.kernel.plane,
                              .stride = o.stride.plane,
                              .pad = o.pad.plane,
                              .dilation = o.dilation.plane,
                              .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& t) {
        return max_pool2d(t, {.kernel = depth_of(o.kernel, 1),
                              .stride = depth_stride(o.stride, o.kernel),
                              .pad = depth_of(o.pad, 0),
                              .dilation = depth_of(o.dilation, 1),
                              .ceil_mode = o.ceil_mode});
      });
}

Tensor avg_pool3d(const Tensor& x, const AvgPool3dOptions& o) {
  check_windows("avg_pool3d", x, o.kernel, o.pad, 1);
  return pooled(
      "avg_pool3d", x,
      [&](const Tensor& t) {
        return avg_pool2d(t, {.kernel = o.kernel.plane,
                              .stride = o.stride.plane,
                              .pad = o.pad.plane,
                              .ceil_mode = o.ceil_mode,
                              .count_include_pad = o.count_include_pad});
      },
      [&](const Tensor& t) {
        return avg_pool2d(t, {.kernel = depth_of(o.kernel, 1),
                              .stride = depth_stride(o.stride, o.kernel),
                              .pad = depth_of(o.pad, 0),
                              .ceil_mode = o.ceil_mode,
                              .count_include_pad = o.count_include_pad});
      });
}

Tensor adaptive_avg_pool3d(const Tensor& x, const Triple& out) {
  return pooled(
      "adaptive_avg_pool3d", x, [&](const Tensor& t) { return adaptive_avg_pool2d(t, out.plane); },
      [&](const Tensor& t) {
        return adaptive_avg_pool2d(t, {out.depth, t.dim(3)});
      });
}

}  // namespace lathe
