// The convolutions of a model as problems of their own, and the least time that a machine needs for
// one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv2d.h"

namespace lathe::cli {

/// One problem, and where the model has it.
struct ConvLayer {
  std::string name;  // of the first layer: "layer1.0.conv1"
  int64_t count;     // layers with this problem
  Conv2dGeometry sizes;
  bool first;  // reads the model's input, which needs no gradient
};

/// Every different convolution in a forward of the model, in the order of the first calls.
///   input  [N,C,H,W]; the model runs once on one image of zeros, in evaluation mode
std::vector<ConvLayer> conv_layers(nn::Module& model, const Shape& input);

/// Operations of any of the three passes: a multiplication and an addition per tap and output,
/// those on padding included.
double conv_operations(const Conv2dGeometry& sizes);
/// Bytes of its three tensors, each moved once.
double conv_bytes(const Conv2dGeometry& sizes, DType dtype);

/// What a device can do at most.
struct Roofline {
  double operations_per_second, bytes_per_second;

  /// The time that the scarcer of the two leaves.
  /// ref: Williams et al. 2009 (Roofline)
  double seconds(const Conv2dGeometry& sizes, DType dtype) const;
};

}  // namespace lathe::cli
