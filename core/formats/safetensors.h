// The safetensors file format: named tensors behind a JSON header. Reading is strict: nothing is
// believed that was not checked, and nothing is allocated beyond the file's own size.
//   8 bytes   n, the header's length, little-endian; n <= 100,000,000
//   n bytes   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, …,
//              "__metadata__": {"key": "text"}}
//   rest      the values: row-major, little-endian, offsets relative to here, from 0 to the end
//             without hole or overlap
// safetensors_header.h holds the JSON part.   ref: https://github.com/huggingface/safetensors,
// "Format".
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"

namespace lathe::safetensors {

using Metadata = std::map<std::string, std::string, std::less<>>;

struct Contents {
  StateDict tensors;  // on the CPU, in the header's order
  Metadata metadata;
  bool has_checksum = false;  // the file carried one, and it fitted
};

/// The contents of a file. Reads f16 bf16 f32 f64 u8 i8 i16 i32 i64 bool; any order of entries; 0-d
/// and zero-size tensors. A file that write() made carries a checksum, which is compared.
/// throws: FileError (cannot be read), DataError naming the file, the entry and the values that do
/// not fit.
LATHE_API Contents read(const std::string& path);

/// The same for bytes in memory; `name` stands for the file in messages.   throws: DataError,
/// OutOfMemoryError.
LATHE_API Contents parse(std::span<const std::byte> bytes, std::string_view name);

/// Writes a file in one step: at any moment `path` is the complete old file or the complete new one
/// (core/file.h). Values are written row-major whatever their strides, from any device, and no more
/// than one tensor is copied for that at a time; the checksum goes into the metadata.
/// throws: FileError; ValueError for a name that is not UTF-8, a header beyond the limit, or
/// metadata that uses the checksum's key.
LATHE_API void write(const std::string& path, const StateDict& tensors,
                     const Metadata& metadata = {});

/// Note [The checksum in a safetensors file]
/// write() begins the header with {"__metadata__":{"lathe.crc32c":"xxxxxxxx" where x is the CRC-32C
/// in hexadecimal of the whole file with these eight digits as zeros. A reader compares it if, and
/// only if, the file begins so. Other programs see a metadata string; one that rewrites the file
/// should drop it.
inline constexpr std::string_view kChecksumKey = "lathe.crc32c";

}  // namespace lathe::safetensors
