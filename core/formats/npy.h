// NumPy's array files: .npy holds one array, .npz (npz.h) is a zip archive of such files. Reading
// is strict: sizes are checked before anything is allocated, and nothing is executed (an array of
// Python objects is refused).
//   6 bytes   "\x93NUMPY"
//   2 bytes   version 1.0, 2.0 or 3.0
//   2 or 4    the header's length, little-endian (2 bytes in version 1.0)
//   header    a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//   rest      the values, in C or Fortran order
// ref: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe::npy {

/// Reads the array of a file, onto the CPU. An array in Fortran order is not copied: its tensor
/// gets the strides of that order. Bytes after the values are an error.
/// dtypes: b1 u1 i1 i2 i4 i8 f2 f4 f8, little- or big-endian.
/// throws: FileError; DataError that names the file and what does not fit or cannot be read.
LATHE_API Tensor read(const std::string& path);

/// Like read(), but from the bytes of a .npy file in memory. `name` stands for the file in
/// messages.
LATHE_API Tensor parse(std::span<const std::byte> bytes, std::string_view name);

/// Writes a tensor on any device to a .npy file, little-endian, in version 1.0 of the format. The
/// order is Fortran's if the tensor's memory has this order, otherwise C's. At any moment `path` is
/// the complete old file or the complete new one.
/// throws: FileError; DTypeError for bf16, which NumPy does not have (write t.to(kF32)).
LATHE_API void write(const std::string& path, const Tensor& tensor);

// --- for npz.h -----------------------------------------------------------------------------------

/// Reads the next bytes of an array file whose size is known.
using ReadNext = FunctionRef<void(void* to, int64_t bytes)>;

/// The array of a file of `size` bytes, read from front to back.
/// throws: DataError, and what `next` throws.
Tensor read_from(ReadNext next, int64_t size, std::string_view name);

/// The bytes of an array file in two parts: the header, and the values behind it. `values` is a CPU
/// tensor whose memory holds the bytes of the second part.
struct Parts {
  std::string header;
  Tensor values;
};
/// throws: DTypeError that names `name`, for bf16.
Parts parts_of(const Tensor& tensor, std::string_view name);

}  // namespace lathe::npy
