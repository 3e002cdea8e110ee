// The PTX inside the device code that nvcc puts into an object file. The format is nvcc's own: it
// was read from files that nvcc 13.0 made (uncompressed, or compressed by Zstandard).
#pragma once

#include <string>

namespace lathe::ptx {

/// `wrapper` is what a program gives to __cudaRegisterFatBinary.
/// throws: ValueError: no PTX is there, or it is compressed in a way that is not known; StateError:
/// no libzstd.so.1, which g++ brings along.
std::string ptx_of(const void* wrapper);

}  // namespace lathe::ptx
