// 1-d pooling as pooling of images of one row, which brings the gradients. Contracts: pool1d.h.
#include "lathe/ops/pool1d.h"

#include "lathe/ops/pool2d.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// [N,C,W] as [N,C,1,W], or [C,W] as [C,1,W].
Tensor one_row(const char* op, const Tensor& x) {
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

}  // namespace

Tensor max_pool1d(const Tensor& x, const MaxPool1dOptions& options) {
  return squeeze(max_pool2d(one_row("max_pool1d", x), of_one_row(options)), -2);
}

ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const MaxPool1dOptions& options) {
  const Tensor row = one_row("max_pool1d_with_indices", x);
  const auto [values, indices] = max_pool2d_with_indices(row, of_one_row(options));
  return {squeeze(values, -2), squeeze(indices, -2)};
}

Tensor avg_pool1d(const Tensor& x, const AvgPool1dOptions& o) {
  const Tensor y = avg_pool2d(one_row("avg_pool1d", x), {.kernel = {1, o.kernel},
                                                         .stride = {1, o.stride},
                                                         .pad = {0, o.pad},
                                                         .ceil_mode = o.ceil_mode,
                                                         .count_include_pad = o.count_include_pad});
  return squeeze(y, -2);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t out) {
  return squeeze(adaptive_avg_pool2d(one_row("adaptive_avg_pool1d", x), {1, out}), -2);
}

}  // namespace lathe
