// Named tensors in a file of any format that lathe reads. safetensors.h, npz.h and pth.h hold the
// formats.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/state_dict.h"

namespace lathe {

enum class TensorFileFormat { kSafetensors, kNpz, kPth };

/// "safetensors", "npz", "pth".
LATHE_API std::string_view name_of(TensorFileFormat format);

/// The format of a file: its first nine bytes tell it, and the entries of a zip archive. A file
/// that is neither a zip archive nor a pickle counts as safetensors, whose reader says what is
/// wrong.
/// throws: FileError; DataError for a damaged archive, or for a single array (.npy), which has no
/// name.
LATHE_API TensorFileFormat tensor_file_format(const std::string& path);

/// The tensors of a file, and its metadata if the format has any (safetensors). Of a .pth file it
/// reads the dictionary that pth::read takes by default.
/// throws: FileError, DataError.
LATHE_API safetensors::Contents read_tensor_file(const std::string& path);

/// Writes the format of the name's suffix, .safetensors or .npz, in one step (core/file.h).
/// throws: ValueError for another suffix, and for metadata if the format has none; otherwise as
/// safetensors::write and npz::write.
LATHE_API void write_tensor_file(const std::string& path, const StateDict& tensors,
                                 const safetensors::Metadata& metadata = {});

}  // namespace lathe
