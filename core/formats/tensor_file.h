// Reads and writes named tensors in files of any format that lathe knows. safetensors.h, npz.h and
// pth.h hold the formats.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/state_dict.h"

namespace lathe {

enum class TensorFileFormat { kSafetensors, kNpz, kPth };

/// "safetensors", "npz", "pth".
LATHE_API std::string_view name_of(TensorFileFormat format);

/// Finds the format of a file from its first bytes, and for a zip archive from its entries. A file
/// whose first eight bytes can be the length of a safetensors header counts as safetensors. If it
/// is damaged or of another format, safetensors::read says so.
/// throws: FileError; DataError for a damaged archive and for a file without weights. The message
/// says what the file is: empty, text, a web page, a pointer of Git LFS, HDF5, gzip, an image, a
/// single array.
LATHE_API TensorFileFormat tensor_file_format(const std::string& path);

/// Reads the tensors of a file, and its metadata if the format has any (safetensors).
///   section  the dictionary of a .pth file to read; empty: the one that pth::read takes by default
/// throws: FileError; DataError; pth::SectionError if `section` is not empty and the file is no
/// .pth file.
LATHE_API safetensors::Contents read_tensor_file(const std::string& path,
                                                 const std::string& section = {});

/// Writes tensors in the format of the suffix of `path`, .safetensors or .npz. At any moment `path`
/// is the complete old file or the complete new one.
/// throws: ValueError for any other suffix, and for metadata in a .npz file; the errors of
/// safetensors::write or npz::write.
LATHE_API void write_tensor_file(const std::string& path, const StateDict& tensors,
                                 const safetensors::Metadata& metadata = {});

/// Writes one tensor to a .npy file: save(x, "x.npy"). nn::save writes a module.
/// throws: ValueError unless `path` ends in .npy; the errors of npy::write.
LATHE_API void save(const Tensor& tensor, const std::string& path);

}  // namespace lathe
