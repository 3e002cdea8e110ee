// The recorded step that `explain` and `graph` show.
#pragma once

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/report/recorded_step.h"

namespace lathe::cli {

/// Records one forward and backward pass of the model, with the cross-entropy as loss. The batch
/// comes from --dataset, or else holds normal random numbers. Chooses the open settings. With
/// --run-dir the weights are those of the run (weights_of()). With weights and no --model, the file
/// decides the model, and a line on stderr names the model.
/// throws: what `find-lr` throws: UsageError, CommandError (kData) and others.
report::RecordedStep record_step(Settings& settings);

}  // namespace lathe::cli
