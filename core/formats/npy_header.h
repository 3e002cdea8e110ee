// The header of a .npy file: reading and writing it. Internal: other code uses npy.h.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/dtype.h"
#include "lathe/core/shape.h"

namespace lathe::npy {

struct Header {
  DType dtype = kF32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the Python literal.
/// throws: DataError that names `file` and what cannot be read.
Header parse_header(std::string_view literal, std::string_view file);

/// Everything before the values: magic, version 1.0, length and literal, padded so that the values
/// begin at a multiple of 64 bytes. `header.dtype` is not bf16.
std::string format_header(const Header& header);

}  // namespace lathe::npy
