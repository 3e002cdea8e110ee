// lathe predict FILE…, the part of `predict` that looks at image files.
#pragma once

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// Prints the --top classes of each image file: of call.words, of the folders among them, and for
/// the word "-" of the lines of stdin. A file that cannot be read is named on stderr and skipped.
/// throws: CommandError (kData) at the end if any was skipped, or at once if the checkpoint does
/// not say how to predict.
ExitCode predict_files(const Invocation& call);

}  // namespace lathe::cli
