// Named tensors in a file of any format that lathe reads; core/formats/safetensors.h, npz.h and pth.h hold
// the formats.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/state_dict.h"

namespace lathe {

enum class TensorFileFormat { kSafetensors, kNpz, kPth };

/// "safetensors", "npz", "pth".
LATHE_API std::string_view name_of(TensorFileFormat format);

/// What a file is, by its first nine bytes and, in a zip archive, by its entries; what is neither a
/// zip archive nor a pickle counts as safetensors, whose reader says what is wrong.
/// throws: FileError, DataError (a damaged archive; a single array, .npy, which has no name).
LATHE_API TensorFileFormat tensor_file_format(const std::string& path);

/// The tensors of a file, and its metadata where the format has any (safetensors). Which dictionary
/// of a .pth file: pth::ReadOptions.   throws: FileError, DataError.
LATHE_API safetensors::Contents read_tensor_file(const std::string& path);

/// Writes the format that the name's suffix says, .safetensors or .npz, in one step (core/file.h).
/// throws: ValueError for another suffix, and for metadata where the format has none; otherwise as
/// safetensors::write and npz::write.
LATHE_API void write_tensor_file(const std::string& path, const StateDict& tensors,
                                 const safetensors::Metadata& metadata = {});

}  // namespace lathe
