// The launches of a step with parts that are not measured yet. Contract: unmeasured_launches.h.
#include "lathe/tools/cli/plan/unmeasured_launches.h"

#include <algorithm>
#include <string_view>

namespace lathe::cli {
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

}  // namespace

std::vector<Launch> with_part(std::vector<Launch> launches, Unmeasured part) {
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

}  // namespace lathe::cli
