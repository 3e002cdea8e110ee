// lathe predict FILE…, the part of `predict` that looks at image files.
#pragma once

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// Prints the --top most probable classes of each image file. A word of the call is a file, a
/// folder of files, or "-" for a list of files on stdin. A file that cannot be read is named on
/// stderr and skipped.
/// throws: CommandError (kData) at the end if a file was skipped, or immediately if the checkpoint
/// does not say how to predict.
ExitCode predict_files(const Invocation& call);

}  // namespace lathe::cli
