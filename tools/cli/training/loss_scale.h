// The loss scale of --amp fp16, from the settings.
#pragma once

#include <cstdint>

#include "lathe/optim/grad_scaler.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The options for --amp and --loss-scale.
/// throws: UsageError.
optim::GradScalerOptions scaler_options(const PrecisionSettings& settings);

/// Call at the end of a run of `steps` steps.
/// throws: CommandError (kDiverged) if every step was skipped.
void fail_if_all_skipped(const PrecisionSettings& settings, int64_t skipped, int64_t steps);

}  // namespace lathe::cli
