// The launches of a step with parts that are not measured yet. Contract: unmeasured_launches.h.
#include "lathe/tools/cli/plan/unmeasured_launches.h"

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

bool is_batch_norm(const Launch& launch) {
  return launch.kind == LaunchKind::kBatchNormForward ||
         launch.kind == LaunchKind::kBatchNormBackward;
}

}  // namespace

std::vector<Launch> with_part(std::vector<Launch> launches, Unmeasured part) {
  const Launch* before = nullptr;
  for (Launch& launch : launches) {
    if (part == Unmeasured::kReluBits) use_bits(launch);
    if (part == Unmeasured::kDependentLaunch && before != nullptr) {
      launch.dependent = is_batch_norm(launch) && !launch.library && !before->library;
    }
    before = &launch;
  }
  return launches;
}

}  // namespace lathe::cli
