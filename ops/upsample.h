// Changing the size of planes by copying or interpolating (upsample.cpp, over resample.h).
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

enum class UpsampleMode : uint8_t { kNearest, kNearestExact, kBilinear, kBicubic };

/// Factors of rows and columns; one number sets both: `.scale = 2` or `.scale = {2, 1.5}`.
struct Factors {
  constexpr Factors(double both = 0) : rows(both), cols(both) {}
  constexpr Factors(double r, double c) : rows(r), cols(c) {}

  double rows, cols;
};

struct UpsampleOptions {
  Pair size = 0;  // rows and columns of the result; 0: from scale
  // The result has floor(scale * size of x) rows and columns; used where size is 0.
  Factors scale = 0.0;
  UpsampleMode mode = UpsampleMode::kNearest;
  // Bilinear and bicubic only. true: the centres of the corner pixels coincide; false: their outer
  // edges do.
  bool align_corners = false;
};

/// Resizes the planes of x: [N,C,H,W], any strides, NHWC is kept → [N,C,P,Q], larger or smaller.
/// The modes, for rows (columns likewise), with step = 1/scale, or H/P if the size is given:
///   nearest        y[p] = x[min(floor(p * step), H-1)]
///   nearest exact  y[p] = x[min(floor((p + 1/2) * step), H-1)]
///   bilinear       y[p] is interpolated between the two neighbours of
///                  max((p + 1/2) * step - 1/2, 0); with align_corners, of p * (H-1)/(P-1)
///   bicubic        y[p] is the cubic convolution (a = -3/4) of the four neighbours of
///                  (p + 1/2) * step - 1/2; with align_corners, of p * (H-1)/(P-1). Beyond its
///                  ends, x continues with its outermost elements.
/// There is no low-pass filter, even if the result is smaller than x.
/// dtypes: floats; sums in f32 or wider.   grad: x, twice differentiable.
/// amp: none, the result follows x.
/// throws: ShapeError, DTypeError; ValueError unless exactly one of size and scale is set, and for
/// align_corners in a nearest mode.
/// ref: torch.nn.functional.interpolate.
LATHE_API Tensor upsample(const Tensor& x, const UpsampleOptions& options);
/// PyTorch's name for upsample.
inline Tensor interpolate(const Tensor& x, const UpsampleOptions& options) {
  return upsample(x, options);
}

}  // namespace lathe
