// What the launches of a step become where batch norm, relu and convolution are one op
// (ops/batch_norm_conv2d.h).
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/tools/cli/plan/launch_list.h"

namespace lathe::cli {

/// A step's launches with those layers fused for which cuDNN has kernels.
struct FusedStep {
  std::vector<Launch> launches;
  int64_t layers = 0;  // that are fused
};

/// Fuses every norm with relu whose result a convolution of the same module takes at once, which is
/// what nn finds in a ResNet. Forward, the pass over memory that applies the norm goes; backward,
/// the input gradient reads the norm's input too, and the pass for the sums goes. The arithmetic is
/// that of the convolution alone.
FusedStep with_fused_layers(const std::vector<Launch>& launches);

}  // namespace lathe::cli
