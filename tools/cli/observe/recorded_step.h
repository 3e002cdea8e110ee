// The recorded step that `explain` and `graph` show.
#pragma once

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/report/recorded_step.h"

namespace lathe::cli {

/// Makes the model, with the weights of --weights if there are some, runs it on a batch of
/// --dataset, or without one on normal random numbers, and takes the cross-entropy's gradients.
/// Fills in the settings that are open; the model is that of the weights, which a line on stderr
/// says.
/// throws: UsageError, CommandError (kData) and others as those of `find-lr`.
report::RecordedStep record_step(Settings& settings);

}  // namespace lathe::cli
