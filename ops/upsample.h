// Changing the size of planes by copying or interpolating.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

enum class UpsampleMode : uint8_t { kNearest, kBilinear };

struct UpsampleOptions {
  Pair size = 0;  // rows and columns of the result; 0: from scale
  double scale =
      0.0;  // the result has floor(scale * size of x) rows and columns; used where size is 0
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners =
      false;  // bilinear: true: the corners' centres coincide, false: their outer edges
};

/// x [N,C,H,W], any strides, NHWC kept → [N,C,P,Q], larger or smaller.
///   nearest   y[p] = x[min(floor(p * step), H-1)],  step = 1/scale, or H/P for a given size
///   bilinear  between the two neighbours of (p + 1/2) * step - 1/2 (clamped to 0), or of p
///   (H-1)/(P-1) with
///             align_corners, in each direction; no low-pass filter when it makes x smaller
/// dtypes: floating; sums in f32 or wider.   grad: x (twice).   No amp word: follows x.
/// throws: ShapeError, ValueError (not exactly one of size and scale, align_corners without
/// bilinear), DTypeError. ref: torch.nn.functional.interpolate.
LATHE_API Tensor upsample(const Tensor& x, const UpsampleOptions& options);

}  // namespace lathe
