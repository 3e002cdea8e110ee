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

/// The format of a file: its first bytes tell it, and the entries of a zip archive. A file that is
/// neither a zip archive nor a pickle counts as safetensors, whose reader says what is wrong.
/// throws: FileError; DataError for a damaged archive, and for what is no file of weights, saying
/// what it is: empty, text, a web page, a pointer of Git LFS, HDF5, gzip, an image, a single array.
LATHE_API TensorFileFormat tensor_file_format(const std::string& path);

/// The tensors of a file, and its metadata if the format has any (safetensors). Of a .pth file it
/// reads `section`, or else the dictionary that pth::read takes by default.
/// throws: FileError; DataError; pth::SectionError for a section of another format.
LATHE_API safetensors::Contents read_tensor_file(const std::string& path,
                                                 const std::string& section = {});

/// Writes the format of the name's suffix, .safetensors or .npz, in one step (core/files/file.h).
/// throws: ValueError for another suffix, and for metadata if the format has none; otherwise as
/// safetensors::write and npz::write.
LATHE_API void write_tensor_file(const std::string& path, const StateDict& tensors,
                                 const safetensors::Metadata& metadata = {});

}  // namespace lathe
