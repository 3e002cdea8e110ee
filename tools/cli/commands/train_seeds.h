// lathe train --seeds: trainings that differ in their seed, and the mean of their accuracies.
#pragma once

#include <memory>

#include "lathe/core/function_ref.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/train/observer.h"

namespace lathe::cli {

/// Makes --seeds trainings, with the seeds --seed, --seed + 1, … Each one has the folder
/// `seed-<seed>` of --run-dir. Then prints the mean of their accuracies after the last epoch, its
/// standard error, and their mean duration. The accuracies are those on the test images that chose
/// nothing, if there are such images (--val-split), otherwise those of the evaluations. The
/// duration is that of the trainings which this call began, not of those which --resume auto
/// continues. If there are none, no duration is printed, and "seconds" of the row is null.
///   train  makes one training, with this observer beside its own
/// → kDone, or what the first training that did not end with kDone returned; no other follows it
/// throws: UsageError without --run-dir, or if --resume is given and not "auto"; what `train`
/// throws.
ExitCode train_seeds(
    const Invocation& call, const Output& out,
    FunctionRef<ExitCode(const Invocation&, std::shared_ptr<train::Observer>)> train);

}  // namespace lathe::cli
