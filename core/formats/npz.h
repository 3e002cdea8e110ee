// NumPy's archives of named arrays: a zip file with one .npy file (npy.h) per name.
//   np.savez("w.npz", **state)  →  npz::read("w.npz")      npz::write("w.npz", state)  →  np.load
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"

namespace lathe::npz {

/// Reads the arrays of a file by name (without ".npy"), onto the CPU and in the file's order.
/// Entries may be stored or deflated; their CRCs are checked. dtypes and layouts are those of
/// npy::read().
/// throws: FileError; DataError that names the file, the entry and what does not fit: an entry that
/// is not an array, a damaged or hostile archive (zip.h), or deflated entries in a build without
/// zlib.
LATHE_API StateDict read(const std::string& path);

/// Like read(), but from the bytes of a .npz file in memory. `name` stands for the file in
/// messages.
LATHE_API StateDict parse(std::span<const std::byte> bytes, std::string_view name);

struct WriteOptions {
  bool compress = false;  // deflate, as np.savez_compressed does; needs zlib
};

/// Writes an archive. At any moment `path` is the complete old file or the complete new one. The
/// same tensors give the same bytes.
/// throws: FileError; DTypeError that names the entry, for bf16, which NumPy does not have;
/// ValueError for a name that is empty, is not UTF-8, contains a NUL or is too long for a zip
/// archive, and for `compress` in a build without zlib.
LATHE_API void write(const std::string& path, const StateDict& tensors,
                     const WriteOptions& options = {});

}  // namespace lathe::npz
