// windows, unfold and fold: strided views that overlap, and their adjoint. Contracts: windows.h.
#include "lathe/ops/windows.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/strided_adjoint.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// The number of windows along one axis.
int64_t count_windows(const char* op, int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                      int64_t dilation) {
  constexpr int64_t kLimit = int64_t{1} << 31;  // keeps the arithmetic inside int64
  LATHE_CHECK(ValueError,
              kernel > 0 && stride > 0 && pad >= 0 && dilation > 0 && kernel < kLimit &&
                  stride < kLimit && pad < kLimit && dilation < kLimit,
              op, ": kernel, stride and dilation must be positive and pad not negative, got ",
              kernel, ", ", stride, ", ", dilation, " and ", pad);
  const int64_t room = in + 2 * pad - (dilation * (kernel - 1) + 1);
  LATHE_CHECK(ShapeError, room >= 0, op, ": a window of ", kernel, " with dilation ", dilation,
              " is larger than ", in, " rows or columns with pad ", pad);
  return room / stride + 1;
}

/// The windows of dense images [N,C,H,W] of these sizes, pad included: [N,C,KH,KW,P,Q].
struct Grid {
  Pair windows;
  Geometry images, columns;
};
Grid grid_of(const char* op, int64_t batch, int64_t channels, Pair size, const UnfoldOptions& opt) {
  const Pair kernel = opt.kernel, stride = opt.stride, dilation = opt.dilation, pad = opt.pad;
  const Pair count{count_windows(op, size.rows, kernel.rows, stride.rows, pad.rows, dilation.rows),
                   count_windows(op, size.cols, kernel.cols, stride.cols, pad.cols, dilation.cols)};
  const Geometry images =
      dense_geometry({batch, channels, size.rows + 2 * pad.rows, size.cols + 2 * pad.cols});
  const Strides& s = images.strides;
  return {count,
          images,
          {{batch, channels, kernel.rows, kernel.cols, count.rows, count.cols},
           {s[0], s[1], dilation.rows * s[2], dilation.cols, stride.rows * s[2], stride.cols},
           0}};
}

}  // namespace

Tensor windows(const Tensor& x_in, int64_t dim_in, int64_t size, int64_t step) {
  const profile::OpRange range("windows", {x_in}, profile::Kind::kView);
  LATHE_CHECK(ValueError, size >= 0 && step > 0, "windows: size ", size,
              " must not be negative and step ", step, " must be positive");
  const int dim = wrap_dim("windows", dim_in, x_in.ndim());
  // as_strided refuses a gradient into shared memory.
  const Tensor x = x_in.requires_grad() && has_overlap(x_in) ? contiguous(x_in) : x_in;
  LATHE_CHECK(IndexError, x.ndim() > 0, "windows: a 0-d tensor has no dimension (x: ", x, ")");
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t n = shape[dim];
  LATHE_CHECK(ShapeError, size <= n, "windows: ", size, " is larger than dimension ", dim,
              ", which has ", n, " (x: ", x_in, ")");
  shape[dim] = (n - size) / step + 1;
  shape.push_back(size);
  strides.push_back(strides[dim]);
  if (shape[dim] > 1) strides[dim] *= step;
  return as_strided(x, shape, strides, x.offset());
}

Tensor unfold(const Tensor& x, const UnfoldOptions& opt) {
  const profile::OpRange range("unfold", {x});
  LATHE_CHECK(ShapeError, x.ndim() == 4, "unfold: x must be [N,C,H,W] (x: ", x, ")");
  const int64_t batch = x.dim(0), channels = x.dim(1);
  const Grid grid = grid_of("unfold", batch, channels, {x.dim(2), x.dim(3)}, opt);
  const bool padded = opt.pad.rows > 0 || opt.pad.cols > 0;
  const Tensor wide =
      padded ? pad(x, {opt.pad.cols, opt.pad.cols, opt.pad.rows, opt.pad.rows}, false) : x;
  const Tensor columns = gather_strided(contiguous(wide), grid.images, grid.columns);
  return reshape(columns, {batch, channels * opt.kernel.rows * opt.kernel.cols,
                           grid.windows.rows * grid.windows.cols});
}

Tensor fold(const Tensor& columns, Pair size, const UnfoldOptions& opt) {
  const profile::OpRange range("fold", {columns});
  LATHE_CHECK(DTypeError, columns.dtype() != kBool,
              "fold: not defined for bool (columns: ", columns, ")");
  LATHE_CHECK(ValueError, size > 0, "fold: size must be positive, got ", size);
  const Grid probe = grid_of("fold", 0, 0, size, opt);
  const int64_t cells = opt.kernel.rows * opt.kernel.cols;
  const int64_t count = probe.windows.rows * probe.windows.cols;
  LATHE_CHECK(ShapeError,
              columns.ndim() == 3 && columns.dim(1) % cells == 0 && columns.dim(2) == count,
              "fold: columns must be [N,C*", cells, ",", count, "] for images of ", size,
              " (columns: ", columns, ")");
  const int64_t batch = columns.dim(0), channels = columns.dim(1) / cells;
  const Grid grid = grid_of("fold", batch, channels, size, opt);
  const Tensor images =
      scatter_strided(reshape(columns, grid.columns.shape), grid.columns, grid.images);
  return pad(images, {-opt.pad.cols, -opt.pad.cols, -opt.pad.rows, -opt.pad.rows}, false);
}

}  // namespace lathe
