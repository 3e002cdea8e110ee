// NumPy's archives of named arrays: a zip file with one .npy file (npy.h) per name.
//   np.savez("w.npz", **state)  →  npz::read("w.npz")      npz::write("w.npz", state)  →  np.load
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"

namespace lathe::npz {

/// The arrays of a file under their names (without ".npy"), on the CPU and in the file's order.
/// Stored and deflated entries; CRCs are compared. dtypes and layouts as npy::read.
/// throws: FileError; DataError naming the file, the entry and the value that does not fit:
/// anything that is not an array, a damaged or hostile archive (core/formats/zip.h), deflated entries in a
/// build without zlib.
LATHE_API StateDict read(const std::string& path);

/// The same for bytes in memory; `name` stands for the file in messages.
LATHE_API StateDict parse(std::span<const std::byte> bytes, std::string_view name);

struct WriteOptions {
  bool compress = false;  // deflate, as np.savez_compressed does; needs zlib
};

/// Writes a file in one step (core/file.h). The same tensors give the same bytes.
/// throws: FileError; DTypeError naming the entry for bf16, which NumPy does not have; ValueError
/// for a name that is empty, not UTF-8, holds a NUL or is too long for a zip archive, and for
/// compress in a build without zlib.
LATHE_API void write(const std::string& path, const StateDict& tensors,
                     const WriteOptions& options = {});

}  // namespace lathe::npz
