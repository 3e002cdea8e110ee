// NumPy's array files: .npy holds one array, .npz (npz.h) is a zip archive of them. Reading is
// strict: sizes are checked before anything is allocated, and nothing is executed (an array of
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

/// The array of a file, on the CPU. dtypes: b1 u1 i1 i2 i4 i8 f2 f4 f8, little- or big-endian. A
/// Fortran-order array keeps its layout: strides, not a copy. Bytes behind the values are an error.
/// throws: FileError; DataError naming the file and the value that does not fit or cannot be read.
LATHE_API Tensor read(const std::string& path);

/// The same for bytes in memory; `name` stands for the file in messages.
LATHE_API Tensor parse(std::span<const std::byte> bytes, std::string_view name);

/// Writes a file in one step (core/file.h), from any device, version 1.0 and little-endian; in
/// Fortran order if that is how the values lie, otherwise in C order.
/// throws: FileError; DTypeError for bf16, which NumPy does not have (write t.to(kF32)).
LATHE_API void write(const std::string& path, const Tensor& tensor);

// --- for npz.h -----------------------------------------------------------------------------------

/// Gives the next bytes of an array file of known size.
using ReadNext = FunctionRef<void(void* to, int64_t bytes)>;

/// An array file of `size` bytes that is read from front to back.   throws: DataError, and what
/// `next` throws.
Tensor read_from(ReadNext next, int64_t size, std::string_view name);

/// An array file in two parts: the header, and a CPU tensor whose memory is the rest.
struct Parts {
  std::string header;
  Tensor values;
};
/// throws: DTypeError naming `name` for bf16.
Parts parts_of(const Tensor& tensor, std::string_view name);

}  // namespace lathe::npy
