// Pooling over windows of volumes, by pooling in the planes and then along the depth (pool3d.cpp).
//   x  [N,C,D,H,W] or [C,D,H,W]   →  [N,C,E,P,Q] or [C,E,P,Q], each size as P in pool2d.h
// dtypes: floats.   amp: none, the result follows x.
// throws: as pool2d.h.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/core/triple.h"

namespace lathe {

struct MaxPool3dOptions {
  Triple kernel = 2;
  Triple stride = 0;       // 0: the kernel's size
  Triple pad = 0;          // -inf added on each side; at most half the kernel
  Triple dilation = 1;     // distance between elements of a window
  bool ceil_mode = false;  // true: the last window may reach beyond the padded input
};

/// The largest element of each window; NaN if the window holds a NaN.
/// grad: x, twice differentiable; if several elements are the largest, the first one gets the whole
/// gradient.
LATHE_API Tensor max_pool3d(const Tensor& x, const MaxPool3dOptions& options);

struct AvgPool3dOptions {
  Triple kernel = 2;
  Triple stride = 0;              // 0: the kernel's size
  Triple pad = 0;                 // zeros added on each side; at most half the kernel
  bool ceil_mode = false;         // true: the last window may reach beyond the padded input
  bool count_include_pad = true;  // false: divide by the number of real elements
};

/// The mean of each window. With ceil_mode, the part of a window beyond the padding is never
/// counted.
/// grad: x, twice differentiable.
LATHE_API Tensor avg_pool3d(const Tensor& x, const AvgPool3dOptions& options);

/// The means of windows that cover the volume. `out` is the number of windows along each dimension.
/// Window i of n along a dimension of size D spans [floor(i D/n), ceil((i+1) D/n)).
/// grad: x, twice differentiable.
LATHE_API Tensor adaptive_avg_pool3d(const Tensor& x, const Triple& out);

}  // namespace lathe
