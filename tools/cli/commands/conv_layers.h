// The convolutions of a model as separate problems, and the least time that a machine needs for
// each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv2d.h"
#include "lathe/tools/cli/table.h"

namespace lathe::cli {

/// One problem, and where it occurs in the model.
struct ConvLayer {
  std::string name;  // of the first layer: "layer1.0.conv1"
  int64_t count;     // layers that have this problem
  Conv2dGeometry sizes;
  bool first;  // whether it reads the model's input, which needs no gradient
};

/// Every different convolution in a forward of the model, in the order of their first calls.
///   input  [N,C,H,W]; the model runs once on one image of zeros, in evaluation mode
std::vector<ConvLayer> conv_layers(nn::Module& model, const Shape& input);

/// Operations of one of the three passes (each has the same): a multiplication and an addition per
/// tap and output, padding included.
double conv_operations(const Conv2dGeometry& sizes);
/// Bytes of the three tensors, each moved once.
double conv_bytes(const Conv2dGeometry& sizes, DType dtype);

/// The table of passes: layer, how many there are, pass, ms, GFLOP/s, roofline, and `more`. A row
/// of a ResNet has at most 71 columns without that, so that one more of 8 fits a terminal of 80.
Table conv_table(const std::vector<ConvLayer>& layers, std::vector<Column> more, int width);
/// The texts of its first six columns: `count` layers, their time together, the rate in operations
/// per second and the part of the roofline.
std::vector<std::string> conv_cells(const std::string& layer, int64_t count, std::string_view pass,
                                    double seconds, double rate, double of_roofline);

/// The most that a device can do.
struct Roofline {
  double operations_per_second, bytes_per_second;

  /// The least time for one pass: bound by operations or by bytes, whichever takes longer.
  /// ref: Williams et al. 2009 (Roofline).
  double seconds(const Conv2dGeometry& sizes, DType dtype) const;
};

}  // namespace lathe::cli
