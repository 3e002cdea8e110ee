// PyTorch's state dicts, as torch.save writes them: a zip archive of a pickle, which names the
// tensors, and one entry of raw bytes per storage. The pickle is read as data (core/formats/pickle.h):
// nothing is executed, and a file that asks for more than tensors and plain values is refused.
//   torch.save(model.state_dict(), "w.pth")  →  pth::read("w.pth")  →  model.load_state_dict(…)
// ref: torch/serialization.py, torch/_utils.py.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"

namespace lathe::pth {

struct ReadOptions {
  std::string section = {};  // which dictionary holds the tensors: "model", "ema.model"; see read()
};

/// The tensors of a state dict by name, on the CPU and in the file's order. Views keep their
/// strides and share memory as they did in PyTorch. Storages: Bool Byte Char Short Int Long Half
/// BFloat16 Float Double, little- or big-endian; parameters are read as tensors.
///
/// In a file that holds more than a state dict options.section says which of its dictionaries to
/// take, nested ones joined with dots. Without it: the file's own dictionary if that holds a
/// tensor, else the one under "state_dict", "model_state_dict" or "model".
/// throws: FileError; DataError naming the file, the entry and the value that does not fit: names
/// of other classes and functions, other instructions, values that are no tensors, views beyond
/// their storage or together larger than 64 MiB and 32 times the file, damaged or hostile archives
/// (core/formats/zip.h), and files of PyTorch before 1.6 (save
/// them again with a newer one).
LATHE_API StateDict read(const std::string& path, const ReadOptions& options = {});

/// The same for bytes in memory; `name` stands for the file in messages.
LATHE_API StateDict parse(std::span<const std::byte> bytes, std::string_view name,
                          const ReadOptions& options = {});

}  // namespace lathe::pth
