// What `lathe ckpt` makes of programs that PyTorch exported (.pt2; graph/pt2/program.h).
#pragma once

#include <memory>
#include <string>

#include "lathe/graph/graph.h"
#include "lathe/graph/pt2/program.h"

namespace lathe::cli {

inline bool is_program_file(const std::string& path) { return path.ends_with(".pt2"); }

/// throws: CommandError (kData); DataError.
std::unique_ptr<jit::Program> open_program(const std::string& path);

/// The program's graph in evaluation, for batches of any size if the export left the size free.
/// throws: CommandError (kData) naming `from` if a graph cannot hold it.
jit::Graph graph_of_program(jit::Program& program, const std::string& from);

}  // namespace lathe::cli
