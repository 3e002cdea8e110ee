// The launches of a step with parts that are not measured yet. Contract: unmeasured_launches.h.
#include "lathe/train/plan/unmeasured_launches.h"

#include <algorithm>
#include <string_view>

namespace lathe::plan {
namespace {

/// y's values are read no more, and a bit per number is written and read: a sixteenth of a half.
void use_bits(Launch& launch) {
  const double bits = launch.masked_bytes / 16;
  if (launch.kind == LaunchKind::kBatchNormForward) {
    launch.written_bytes += bits;
  } else {
    launch.read_bytes += bits - launch.masked_bytes;
  }
}

/// Whether launch_dependent() starts the kernel (core/gpu/dependent_launch.cuh).
bool can_wait(const Launch& launch) {
  constexpr std::string_view kStepKernels[] = {"norm_parts_kernel", "begin_step_kernel",
                                               "count_step_kernel", "update_kernel",
                                               "update_loss_scale_kernel"};
  switch (launch.kind) {
    case LaunchKind::kBatchNormForward:
    case LaunchKind::kBatchNormBackward:
    case LaunchKind::kLoss: return true;
    case LaunchKind::kElementwise: return launch.kernel == "pointwise";
    case LaunchKind::kReduction: return launch.kernel == "sum" || launch.kernel == "mean";
    case LaunchKind::kOptimizer:
      return std::ranges::find(kStepKernels, launch.kernel) != std::end(kStepKernels);
    default: return false;
  }
}

/// Whether this input gradient can go on through a block's end, the op behind it.
bool goes_on(const Launch& convolution, const Launch& sums) {
  return convolution.op == "conv2d_input_grad" && convolution.fuses &&
         sums.op == "batch_norm_add_relu backward" && sums.kernel == "sums_kernel";
}

/// The convolution also reads the other gradient, the residual and what was normalised, and writes
/// what the relu passed. The sums go, and a kernel of cuDNN adds up what it left of them.
void go_on(Launch& convolution, Launch& sums, Launch& of_input) {
  convolution.read_bytes += 3 * convolution.written_bytes;
  sums.kernel = "dbn_stats_kernel";  // numbers per channel only
  sums.library = true;
  sums.read_bytes = sums.written_bytes = sums.again_bytes = sums.masked_bytes = 0;
  of_input.kernel = "combine_kernel";
}

}  // namespace

std::vector<Launch> with_part(std::vector<Launch> launches, Unmeasured part) {
  for (size_t i = 0; part == Unmeasured::kResidualGrad && i + 2 < launches.size(); ++i) {
    if (goes_on(launches[i], launches[i + 1])) go_on(launches[i], launches[i + 1], launches[i + 2]);
  }
  const Launch* before = nullptr;
  for (Launch& launch : launches) {
    if (part == Unmeasured::kReluBits) use_bits(launch);
    if (part == Unmeasured::kDependentLaunch && before != nullptr) {
      launch.dependent = can_wait(launch) && !launch.library && !before->library;
    }
    before = &launch;
  }
  return launches;
}

}  // namespace lathe::plan
