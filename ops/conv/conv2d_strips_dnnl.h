// Small images side by side in one wide image, for oneDNN's bf16 kernels on AMX tiles: these take
// a tile's 16 rows, and the weight gradient its 32 products, from one row of an image, so that of a
// 4x4 image most of every tile is padding. Included by conv2d_dnnl.cpp and conv2d_strips_dnnl.cpp only.
#pragma once

#include <optional>

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

enum class Conv2dPass : int64_t;  // conv2d_plan_dnnl.h

/// A convolution of strips: `images` images of the batch beside one another, zeros between them
/// where a filter would else reach from one into the next. The outputs between the images are not
/// part of the result; as dy they are 0, so that they add nothing to a gradient.
struct Conv2dStrips {
  Conv2dGeometry strip;
  int64_t images;

  /// Columns from one image to the next, in x and in y.
  int64_t x_pitch() const { return strip.W / images; }
  int64_t y_pitch() const { return strip.Q / images; }

  /// x or y of the images as strips, NHWC, zeros elsewhere.
  Tensor strips_of_x(const Tensor& x) const;
  Tensor strips_of_y(const Tensor& y) const;
  /// Uninitialised strips for a result, and the images out of them.
  Tensor empty_x(DType dtype) const;
  Tensor empty_y(DType dtype) const;
  void take_x(const Tensor& x, const Tensor& strips) const;
  void take_y(const Tensor& y, const Tensor& strips) const;
};

/// How to run this pass of an NHWC bf16 convolution in strips; nothing where images are wide enough
/// or the processor has no AMX. A strip's row of outputs has about 64 columns; there are at least
/// `threads` strips, if the batch is that large. Measurements: docs/performance.md.
std::optional<Conv2dStrips> conv2d_strips(Conv2dPass pass, const Conv2dGeometry& g, int threads);

/// Does a strip whose W is a whole number of strides have W / stride outputs per row? So it is for
/// padding that keeps sizes, as that of residual networks.
bool fits_strips(const Conv2dGeometry& g);

/// Strips of `images` images each, whether or not they pay; g must fit strips.
Conv2dStrips make_conv2d_strips(const Conv2dGeometry& g, int64_t images);

}  // namespace lathe::cpu
