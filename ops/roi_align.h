// Features of regions of images (roi_align.cpp, made of other ops). The name and numbers are those
// of torchvision.ops.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct RoiAlignOptions {
  double spatial_scale = 1;     // from the boxes' coordinates to x's pixels
  int64_t sampling_ratio = -1;  // points per bin and direction; not above 0: as many as its pixels
  bool aligned = false;         // true: half a pixel less, so that (0, 0) is a corner of pixel 0
};

/// y[k,c] = the part of image x[n] that box k shows, divided into `output_size` bins. A bin is the
/// mean of x, interpolated between pixels, over points that are spread evenly in it.
///   x      [N,C,H,W]
///   boxes  [K,5]: n, x1, y1, x2, y2, of x's dtype; or a list of N tensors [K_n,4] without n. For
///          one image also [K,4]
///   →      [K,C,P,Q] for output_size {P, Q}
/// Without aligned, sides of less than a pixel count as a pixel. A point more than a pixel outside
/// of the image counts as 0. Without a sampling_ratio above 0 it waits for the device.
/// dtypes: floats; half types are computed in f32.
/// grad: x, twice differentiable; boxes get none.
/// amp: none, the result follows x.
/// throws: IndexError for an image n outside [0, N) (on a GPU the next call that waits for the
/// device throws it); ValueError for an output_size that is not positive, and for a box that is not
/// finite without a sampling_ratio above 0; ShapeError, DTypeError, DeviceError.
/// ref: He et al. 2017 (arXiv:1703.06870).
LATHE_API Tensor roi_align(const Tensor& x, const Tensor& boxes, Pair output_size,
                           const RoiAlignOptions& options = {});
LATHE_API Tensor roi_align(const Tensor& x, const Tensors& boxes, Pair output_size,
                           const RoiAlignOptions& options = {});

}  // namespace lathe
