// What the launches of a step become where batch norm, relu and convolution are one op
// (ops/batch_norm_conv2d.h).
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/plan/launch_list.h"

namespace lathe::plan {

/// A step's launches with what cuDNN can fuse.
struct FusedStep {
  std::vector<Launch> launches;
  int64_t layers = 0;  // norm, relu and convolution as one op
  int64_t sums = 0;    // convolutions that leave the sums for the norm behind them
};

/// Fuses every norm with relu whose result a convolution of the same module takes at once, which is
/// what nn finds in a ResNet, and lets every convolution that cuDNN has a kernel for leave the sums
/// that a norm behind it needs. Forward, the passes over memory that sum up and that apply the norm
/// go; backward, the input gradient reads the norm's input too, and the pass for the sums goes.
/// After a convolution that leaves sums cuDNN launches a kernel that adds them up (bn_stats_kernel,
/// dbn_stats_kernel). The arithmetic is that of the convolution alone.
LATHE_API FusedStep fused_step(const std::vector<Launch>& launches);

}  // namespace lathe::plan
