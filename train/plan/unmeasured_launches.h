// What the launches of a step become with the parts of core/unmeasured.h.
#pragma once

#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/unmeasured.h"
#include "lathe/train/plan/launch_list.h"

namespace lathe::plan {

/// The launches with the part turned on; kDependentLaunch comes after the others. They are the same
/// ones, but:
///   kReluBits         batch_norm_add_relu writes a bit per number of y, and its gradient reads
///                     those instead of y
///   kDependentLaunch  our kernels that can wait themselves, and follow another kernel of ours,
///                     are dependent. Behind a library's kernel they wait for its end, as ever
///   kResidualGrad     for a fused step: input gradients with a stride of 1 go on through the end
///                     of the block before, with cuDNN's kernel in place of the sums of ours
LATHE_API std::vector<Launch> with_part(std::vector<Launch> launches, Unmeasured part);

}  // namespace lathe::plan
