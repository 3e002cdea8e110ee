// The convolutions of a model as separate problems, and the least time that a machine needs for
// each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/nn/module.h"
#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::plan {

/// One problem, and where it occurs in the model.
struct ConvLayer {
  std::string name;  // of the first layer: "layer1.0.conv1"
  int64_t count;     // layers that have this problem
  Conv2dGeometry sizes;
  bool first;  // whether it reads the model's input, which needs no gradient
};

/// Every different convolution in a forward of the model, in the order of their first calls.
///   input  [N,C,H,W]; the model runs once on one image of zeros, in evaluation mode
LATHE_API std::vector<ConvLayer> conv_layers(nn::Module& model, const Shape& input);

/// Operations of one of the three passes (each has the same): a multiplication and an addition per
/// tap and output, padding included.
LATHE_API double conv_operations(const Conv2dGeometry& sizes);
/// Bytes of the three tensors, each moved once.
LATHE_API double conv_bytes(const Conv2dGeometry& sizes, DType dtype);

/// The most that a device can do.
struct Roofline {
  double operations_per_second, bytes_per_second;

  /// The least time for one pass: bound by operations or by bytes, whichever takes longer.
  /// ref: Williams et al. 2009 (Roofline).
  LATHE_API double seconds(const Conv2dGeometry& sizes, DType dtype) const;
};

/// A measured pass of a convolution: where it stands below the roof.
struct RooflineDot {
  std::string pass;  // "forward"; the dots of a pass have one colour
  double operations, bytes, seconds;
};

/// Operations per second over operations per byte, both logarithmic: the roof, and the dots below
/// it. A dot on the slope is bound by memory, one under the flat part by arithmetic.
LATHE_API std::string roofline_svg(const std::string& title, const Roofline& roof,
                                   const std::vector<RooflineDot>& dots);

}  // namespace lathe::plan
