// Small images side by side in one wide image, for oneDNN's bf16 kernels on AMX tiles. Those fill a
// tile's 16 rows (for the weight gradient its 32 products) from one row of an image, so with 4x4
// images most of every tile would be padding. Where it is done: conv2d_choice_cpu.h.
#pragma once

#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

/// A convolution of strips. A strip is `images` images of the batch beside one another, with zeros
/// between them where a filter would otherwise reach from one into the next. Outputs between the
/// images are not part of the result; in dy they are 0, so they add nothing to a gradient.
struct Conv2dStrips {
  Conv2dGeometry strip;
  int64_t images;

  /// Columns from the start of one image to the start of the next, in x and in y.
  int64_t x_pitch() const { return strip.W / images; }
  int64_t y_pitch() const { return strip.Q / images; }

  /// The images of x or y as strips, NHWC, with zeros between them.
  Tensor strips_of_x(const Tensor& x) const;
  Tensor strips_of_y(const Tensor& y) const;
  /// Uninitialised strips for a result, and the copy of the images out of them.
  Tensor empty_x(DType dtype) const;
  Tensor empty_y(DType dtype) const;
  void take_x(const Tensor& x, const Tensor& strips) const;
  void take_y(const Tensor& y, const Tensor& strips) const;
};

/// True if a strip whose W is a whole number of strides has W / stride outputs per row. That holds
/// for padding that keeps sizes, as in residual networks.
bool fits_strips(const Conv2dGeometry& g);

/// Strips of `images` images each. g must fit strips.
Conv2dStrips make_conv2d_strips(const Conv2dGeometry& g, int64_t images);

}  // namespace lathe::cpu
