// What `lathe ckpt` makes of programs that PyTorch exported (.pt2; graph/pt2/program.h).
#pragma once

#include <memory>
#include <string>

#include "lathe/graph/graph.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Loads the program in the file `path`.
/// throws: CommandError (kData); DataError.
std::unique_ptr<jit::Program> open_program(const std::string& path);

/// Checks --model, which names the program that the weights in `from` are for.
/// throws: UsageError if the file is no program, or if the conversion of `from` to `to` needs none.
void check_model_flag(const Settings& settings, const std::string& from, const std::string& to);

/// The program's graph in evaluation mode, for batches of any size. If the export or the program
/// allows only one size, the graph takes inputs of this size, which is printed with the reason.
/// throws: CommandError (kData) naming `from` if a graph cannot hold the program.
jit::Graph graph_of_program(jit::Program& program, const std::string& from, const Output& out);

}  // namespace lathe::cli
