// `lathe plan --recipe`: how long the whole training of a recipe takes on a GPU that need not be
// there.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/machine/gpu_description.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/plan/launch_list.h"

namespace lathe::cli {

/// Prints how long the recipe's steps and evaluations take, and what that leaves out. An evaluation
/// counts the launches of a step's forward pass for each view of each test image.
///   launches  of a step of `batch` images
void print_run(const Output& out, const Settings& settings, const GpuDescription& gpu,
               const std::vector<plan::Launch>& launches, int64_t batch);

}  // namespace lathe::cli
