// The recorded step that `explain` and `graph` show.
#pragma once

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/report/recorded_step.h"

namespace lathe::cli {

/// Whether the weights of a run are needed: where only shapes are shown, a run that has saved none
/// yet will do if its config.toml names the model.
enum class WeightsOfRun { kNeeded, kIfThere };

/// Records one forward and backward pass of the model, with the cross-entropy as loss. The batch
/// comes from --dataset, or else holds normal random numbers. Chooses the open settings. With
/// --run-dir the weights are those of the run (weights_of()). With weights and no --model, the file
/// decides the model, and a line on stderr names the model.
/// throws: what `find-lr` throws: UsageError, CommandError (kData) and others.
report::RecordedStep record_step(Settings& settings, WeightsOfRun weights = WeightsOfRun::kNeeded);

}  // namespace lathe::cli
