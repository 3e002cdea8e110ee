// Reading images at points that tensors give, and grids of such points (grid_sample.cpp, made of
// other ops). A point is (x, y): -1 is the left or upper end of the image, 1 the right or lower.
// grad: every tensor, twice differentiable.   throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

enum class SampleMode : uint8_t {
  kBilinear,
  kNearest,  // halves to even; grid gets a gradient of 0
};
/// A coordinate that is NaN, and with kReflection one that is infinite, counts as the middle of the
/// first pixel, and gets a gradient of 0. With kZeros it gives NaN, or 0 by SampleMode::kNearest.
enum class SamplePadding : uint8_t {
  kZeros,       // 0 outside the image
  kBorder,      // the nearest pixel of the image
  kReflection,  // the image mirrored at its ends, as often as it takes
};
struct GridSampleOptions {
  SampleMode mode = SampleMode::kBilinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align_corners = false;  // true: -1 and 1 are the middles of the outermost pixels
};
/// y[n,c,p,q] = the value of image x[n,c] at the point grid[n,p,q].
///   x  [N,C,H,W], H and W above 0   grid  [N,P,Q,2], x's dtype   →  [N,C,P,Q]
/// dtypes: floats; half types are computed in f32.
/// amp: float.
/// ref: Jaderberg et al. 2015 (arXiv:1506.02025).
LATHE_API Tensor grid_sample(const Tensor& x, const Tensor& grid,
                             const GridSampleOptions& options = {});

/// The grid of an image of `rows` x `columns` after the affine map theta[n], for grid_sample:
/// grid[n,p,q] = theta[n] (x, y, 1) for the middle (x, y) of pixel [p,q]. Pass the align_corners of
/// grid_sample's options.
///   theta  [N,2,3]   →  [N,rows,columns,2]
/// dtypes: floats.
/// throws: ShapeError, DTypeError, DeviceError; ValueError for negative `rows` or `columns`.
LATHE_API Tensor affine_grid(const Tensor& theta, int64_t rows, int64_t columns,
                             bool align_corners = false);

}  // namespace lathe
