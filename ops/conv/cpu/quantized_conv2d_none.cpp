// Quantised convolution in a build without oneDNN. Contract: quantized_conv2d_cpu.h.
#include "lathe/ops/conv/cpu/quantized_conv2d_cpu.h"

namespace lathe::cpu {

bool fast_quantized_conv2d(const Conv2dGeometry&, const Tensor&, const Tensor&, const Tensor&,
                           const Requantization&, const QuantizedEpilogue&) {
  return false;
}

}  // namespace lathe::cpu
