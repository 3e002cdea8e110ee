// 1-d pooling as pooling of images of one row, which brings the gradients. Contracts: pool1d.h.
#include "lathe/ops/pool1d.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/axis_map.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// What pool2d.h would refuse, said of the row that the caller knows.
void check_window(const char* op, const Tensor& x, const Window1d& w, int64_t stride) {
  LATHE_CHECK(ValueError, w.kernel > 0 && w.dilation > 0 && stride >= 0, op,
              ": kernel and dilation must be positive and stride not negative, got ", w.kernel,
              ", ", w.dilation, " and ", stride);
  LATHE_CHECK(ValueError, w.pad >= 0 && w.pad <= w.kernel / 2, op,
              ": pad must be between 0 and half the kernel, got ", w.pad, " for a kernel of ",
              w.kernel);
  const int64_t size = x.dim(-1);
  LATHE_CHECK(ShapeError, pooled_size(size, w) > 0, op, ": a window of ", w.kernel,
              " with dilation ", w.dilation, " is larger than ", size, " elements with pad ", w.pad,
              " (x: ", x, ")");
}

/// [N,C,W] as [N,C,1,W], or [C,W] as [C,1,W].
Tensor one_row(const char* op, const Tensor& x) {
  check_floating(op, x);
  LATHE_CHECK(ShapeError, x.ndim() == 2 || x.ndim() == 3, op,
              ": x must be [N,C,W] or [C,W] (x: ", x, ")");
  return unsqueeze(x, -2);
}

MaxPool2dOptions of_one_row(const MaxPool1dOptions& o) {
  return {.kernel = {1, o.kernel},
          .stride = {1, o.stride},
          .pad = {0, o.pad},
          .dilation = {1, o.dilation},
          .ceil_mode = o.ceil_mode};
}

Window1d window_of(const MaxPool1dOptions& o) {
  return {o.kernel, o.stride == 0 ? o.kernel : o.stride, o.pad, o.dilation, o.ceil_mode};
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const MaxPool1dOptions& options) {
  const profile::OpRange range("max_pool1d", {x});
  const Tensor row = one_row("max_pool1d", x);
  check_window("max_pool1d", x, window_of(options), options.stride);
  return squeeze(max_pool2d(row, of_one_row(options)), -2);
}

ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const MaxPool1dOptions& options) {
  const profile::OpRange range("max_pool1d_with_indices", {x});
  const Tensor row = one_row("max_pool1d_with_indices", x);
  check_window("max_pool1d_with_indices", x, window_of(options), options.stride);
  const auto [values, indices] = max_pool2d_with_indices(row, of_one_row(options));
  return {squeeze(values, -2), squeeze(indices, -2)};
}

Tensor avg_pool1d(const Tensor& x, const AvgPool1dOptions& o) {
  const profile::OpRange range("avg_pool1d", {x});
  const Tensor row = one_row("avg_pool1d", x);
  const Window1d window{o.kernel, o.stride == 0 ? o.kernel : o.stride, o.pad, 1, o.ceil_mode};
  check_window("avg_pool1d", x, window, o.stride);
  const Tensor y = avg_pool2d(row, {.kernel = {1, o.kernel},
                                    .stride = {1, o.stride},
                                    .pad = {0, o.pad},
                                    .ceil_mode = o.ceil_mode,
                                    .count_include_pad = o.count_include_pad});
  return squeeze(y, -2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t out) {
  const profile::OpRange range("adaptive_avg_pool1d", {x});
  return squeeze(adaptive_avg_pool2d(one_row("adaptive_avg_pool1d", x), {1, out}), -2);
}

}  // namespace lathe
