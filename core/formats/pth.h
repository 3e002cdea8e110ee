// PyTorch's state dicts as torch.save writes them: a zip archive with a pickle, which describes the
// tensors, and one entry of raw bytes per storage. The pickle is read as data (pickle.h): nothing
// is executed, and a file with anything but tensors and plain values is refused.
//   torch.save(model.state_dict(), "w.pth")  →  pth::read("w.pth")  →  model.load_state_dict(…)
// ref: torch/serialization.py, torch/_utils.py.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/state_dict.h"

namespace lathe::pth {

/// Thrown if ReadOptions::section names no dictionary of the file. Also thrown if
/// ReadOptions::section is "" and read() cannot tell which dictionary to take. The message lists
/// possible names.
class LATHE_API SectionError : public DataError {
  using DataError::DataError;
};

struct ReadOptions {
  std::string section = {};  // the dictionary with the tensors: "model", "ema.model"; see read()
};

/// Reads the tensors of a state dict by name, onto the CPU and in the file's order. Views keep
/// their strides and share memory as they did in PyTorch. Parameters become plain tensors.
/// dtypes: the storages Bool Byte Char Short Int Long Half BFloat16 Float Double, little- or
/// big-endian.
///
/// If the file holds more than a state dict, options.section names the dictionary to read; dots
/// lead to nested ones. Without options.section, read() takes
/// - the dictionary under "state_dict", "model_state_dict" or "model" if there is one, as in
///   checkpoints of trainers. There may be single tensors beside it;
/// - else the dictionary under another key ("net", "params") that holds more tensors than the
///   outermost dictionary itself. If there are several such dictionaries, read() throws
///   SectionError;
/// - else the file's outermost dictionary, which must hold a tensor or be empty.
/// throws: FileError; SectionError; DataError that names the file, the entry and what does not fit:
/// - a pickle with classes, functions or instructions that a state dict does not need, or values
///   that are not tensors
/// - views beyond their storage, or tensors that together have more bytes than 64 MiB plus 32 times
///   the file
/// - damaged or hostile archives (zip.h)
/// - files of PyTorch before 1.6: save them again with a newer PyTorch
LATHE_API StateDict read(const std::string& path, const ReadOptions& options = {});

/// Like read(), but from the bytes of a .pth file in memory. `name` stands for the file in
/// messages.
LATHE_API StateDict parse(std::span<const std::byte> bytes, std::string_view name,
                          const ReadOptions& options = {});

}  // namespace lathe::pth
