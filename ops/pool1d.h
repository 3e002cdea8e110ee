// Pooling over windows of rows, computed by pool2d.h as images of one row (pool1d.cpp).
//   x  [N,C,W] or [C,W], any strides   →  [N,C,Q] or [C,Q],  Q as P in pool2d.h
// dtypes: floats.   amp: none, the result follows x.
// throws: as pool2d.h.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/argmax.h"

namespace lathe {

struct MaxPool1dOptions {
  int64_t kernel = 2;
  int64_t stride = 0;      // 0: the kernel's size
  int64_t pad = 0;         // -inf added on each side; at most half the kernel
  int64_t dilation = 1;    // distance between elements of a window
  bool ceil_mode = false;  // true: the last window may reach beyond the padded input
};

/// The largest element of each window; NaN if the window holds a NaN.
/// grad: x, twice differentiable; if several elements are the largest, the first one gets the whole
/// gradient.
LATHE_API Tensor max_pool1d(const Tensor& x, const MaxPool1dOptions& options);

/// Like max_pool1d(), but also returns the position of each largest element in its row, i64.
LATHE_API ValuesAndIndices max_pool1d_with_indices(const Tensor& x,
                                                   const MaxPool1dOptions& options);

struct AvgPool1dOptions {
  int64_t kernel = 2;
  int64_t stride = 0;             // 0: the kernel's size
  int64_t pad = 0;                // zeros added on each side; at most half the kernel
  bool ceil_mode = false;         // true: the last window may reach beyond the padded input
  bool count_include_pad = true;  // false: divide by the number of real elements
};

/// The mean of each window.
/// grad: x, twice differentiable.
LATHE_API Tensor avg_pool1d(const Tensor& x, const AvgPool1dOptions& options);

/// The means of Q = `out` windows that cover the row. Window i spans
/// [floor(i W/Q), ceil((i+1) W/Q)).
/// grad: x, twice differentiable.
LATHE_API Tensor adaptive_avg_pool1d(const Tensor& x, int64_t out);

}  // namespace lathe
