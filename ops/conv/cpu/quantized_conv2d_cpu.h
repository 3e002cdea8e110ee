// What oneDNN and our own loops share of a quantised convolution. Included by
// quantized_conv2d_*.cpp only.
#pragma once

#include <vector>

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/quantized.h"

namespace lathe::cpu {

/// What becomes of a sum of products, in steps of the result:
///   v = sum * multiplier[k] + offset[k] + residual_multiplier * residual
struct Requantization {
  std::vector<float> multiplier, offset;  // one per output channel
  float residual_multiplier = 0;
};

/// y by oneDNN; false if this build or this processor cannot, and then y is not written. x, y and
/// the residual: NHWC; w: row-major.
bool fast_quantized_conv2d(const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
                           const Tensor& w, const Requantization& numbers,
                           const QuantizedEpilogue& then);

}  // namespace lathe::cpu
