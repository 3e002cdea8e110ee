// lathe ckpt convert --int8: from calibration images to a graph of 8-bit integers.
#pragma once

#include <string>

#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/graph_file.h"

namespace lathe::cli {

/// Checks that the flags of `call` fit together.
/// throws: UsageError for a flag of --int8 in a call without --int8, for --int8 in a call that
/// makes no graph, or for --data-root beside --calibration.
void check_int8_flags(const Invocation& call, bool makes_graph);

/// Quantises the graph of the file `from` (jit::quantize) and prints a row for each layer. The
/// calibration images are those of --calibration, prepared as `file` says. Without --calibration
/// they are the training images of the run that saved the checkpoint `from`.
/// throws: UsageError if there are no images to take. CommandError (kData) if --calibration is no
/// folder, if too few images can be read, or if the graph has no convolution or linear layer in
/// f32.
void make_int8(GraphFile& file, const std::string& from, const Settings& settings,
               const Output& out);

}  // namespace lathe::cli
