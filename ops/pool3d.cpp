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

/// `along_depth` pools images [N,C,D,H*W] along D; `in_planes` pools images [N*E,C,H,W].
Tensor pooled(const char* op, const Tensor& x, Pool along_depth, Pool in_planes) {
  check_floating(op, x);
  LATHE_CHECK(ShapeError, x.ndim() == 4 || x.ndim() == 5, op,
              ": x must be [N,C,D,H,W] or [C,D,H,W] (x: ", x, ")");
  if (x.ndim() == 4) return squeeze(pooled(op, unsqueeze(x, 0), along_depth, in_planes), 0);
  const profile::OpRange range(op, {x});
  const int64_t n = x.dim(0), c = x.dim(1), h = x.dim(3), w = x.dim(4);
  const Tensor flat = along_depth(reshape(x, {n, c, x.dim(2), h * w}));
  const int64_t depth = flat.dim(2);
  const Tensor y = in_planes(reshape(flat, {n, c * depth, h, w}));
  return reshape(y, {n, c, depth, y.dim(2), y.dim(3)});
}

/// Rows for the depth, and each column by itself.
Pair depth_of(const Triple& t, int64_t column) { return {t.depth, column}; }

/// The stride where 0 stands for the kernel's size.
Pair depth_stride(const Triple& stride, const Triple& kernel) {
  return {stride.depth == 0 ? kernel.depth : stride.depth, 1};
}

}  // namespace

Tensor max_pool3d(const Tensor& x, const MaxPool3dOptions& o) {
  return pooled(
      "max_pool3d", x,
      [&](const Tensor& t) {
        return max_pool2d(t, {.kernel = depth_of(o.kernel, 1),
                              .stride = depth_stride(o.stride, o.kernel),
                              .pad = depth_of(o.pad, 0),
                              .dilation = depth_of(o.dilation, 1),
                              .ceil_mode = o.ceil_mode});
      },
      [&](const Tensor& t) {
        return max_pool2d(t, {.kernel = o.kernel.plane,
                              .stride = o.stride.plane,
                              .pad = o.pad.plane,
                              .dilation = o.dilation.plane,
                              .ceil_mode = o.ceil_mode});
      });
}

Tensor avg_pool3d(const Tensor& x, const AvgPool3dOptions& o) {
  return pooled(
      "avg_pool3d", x,
      [&](const Tensor& t) {
        return avg_pool2d(t, {.kernel = depth_of(o.kernel, 1),
                              .stride = depth_stride(o.stride, o.kernel),
                              .pad = depth_of(o.pad, 0),
                              .ceil_mode = o.ceil_mode,
                              .count_include_pad = o.count_include_pad});
      },
      [&](const Tensor& t) {
        return avg_pool2d(t, {.kernel = o.kernel.plane,
                              .stride = o.stride.plane,
                              .pad = o.pad.plane,
                              .ceil_mode = o.ceil_mode,
                              .count_include_pad = o.count_include_pad});
      });
}

Tensor adaptive_avg_pool3d(const Tensor& x, const Triple& out) {
  return pooled(
      "adaptive_avg_pool3d", x,
      [&](const Tensor& t) {
        return adaptive_avg_pool2d(t, {out.depth, t.dim(3)});
      },
      [&](const Tensor& t) { return adaptive_avg_pool2d(t, out.plane); });
}

}  // namespace lathe
