// The archive of torch.export.save: a zip with the program as JSON and one entry of raw bytes for
// each storage. Internal: program.h is what others use.
//   resnet18/models/model.json                           the program (pt2_schema.h)
//   resnet18/data/weights/model_weights_config.json      names, dtypes, sizes and strides
//   resnet18/data/weights/weight_0, weight_1, …          values, little-endian (byteorder)
//   resnet18/data/constants/…                            likewise
// PyTorch 2.8 wrote the weights as one file of torch.save, data/weights/model.pt (core/formats/
// pth.h). data/sample_inputs is a pickle, which is kept and not read.
// ref: torch/export/pt2_archive of PyTorch 2.15.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/formats/byte_source.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/pt2/pt2_schema.h"

namespace lathe::jit::pt2 {

/// What a file is written from again, besides its tensors (pt2_write.h).
struct ProgramSource {
  std::string model;  // the program's name in the archive, "model"
  std::string json;   // of models/NAME.json
  // Sample inputs, and the files that the caller of torch.export.save added: names below the
  // archive's folder, and contents.
  std::vector<std::pair<std::string, std::string>> others = {};
};

/// Below the archive's folder.
inline std::string sample_inputs_entry(const std::string& model) {
  return "data/sample_inputs/" + model + ".pt";
}

struct ProgramFile {
  ProgramText program;
  ProgramSource source;
  // For each of program.inputs its tensor; undefined for the user's. Parameters of one storage with
  // one type (tied weights) share one Tensor; so do buffers. A buffer over a parameter's storage is
  // a Tensor of its own there.
  Tensors tensors;
  std::vector<std::string> drawn;  // the parameters of a new last layer
};

/// Reads and checks the whole file. Tensors are on the CPU, with the file's strides, or row-major
/// where elements would overlap. Together with their storages they may have 64 MiB plus 32 times
/// the file.
///   weights  if not null, the weights' values are not read: they are 0, and need not be in the
///            file. Then the limit counts the bytes of these tensors as if the file held them.
///   classes  of a new last layer (pt2_head.h), if it is to have one. Its weight and bias are drawn
///            from U(±1/sqrt(fan_in)) and not read.
/// throws: FileError; DataError that names the file, the entry and the values that do not fit: a
/// damaged archive (zip.h), no program or several, a schema other than 8, weights that are missing,
/// outside of their storage or not of the program's shape, and the archives of PyTorch before 2.8.
ProgramFile read_program(const ByteSource& source, const StateDict* weights = nullptr,
                         std::optional<int64_t> classes = {});

}  // namespace lathe::jit::pt2
