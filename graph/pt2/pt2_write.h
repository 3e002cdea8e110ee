// Writes the archive that pt2_file.h reads, as torch.export.save of PyTorch 2.15 does. Internal:
// program.h is what others use.
#pragma once

#include <vector>

#include "lathe/core/formats/zip.h"
#include "lathe/graph/pt2/pt2_file.h"

namespace lathe::jit::pt2 {

enum class Weights : bool { kLeftOut, kWritten };

/// Adds the archive's entries. The caller commits.
///   inputs   of the program, as it was read
///   tensors  for each input its tensor, on any device and of any shape; undefined for the user's.
///            Weights may be of any dtype, and are written in that of the export. Those that share
///            memory share it in the file, if they need no copy for that.
///   weights  kLeftOut: of parameters and buffers only their types are written. Constants always
///            have their values.
/// throws: FileError, OutOfMemoryError; std::bad_alloc for an archive in memory.
void write_program(zip::Writer& to, const ProgramSource& source, const std::vector<Input>& inputs,
                   const Tensors& tensors, Weights weights);

}  // namespace lathe::jit::pt2
