// The safetensors file format: named tensors after a JSON header. Reading is strict: everything is
// checked before it is used, and nothing is allocated beyond the file's own size.
//   8 bytes   n, the header's length, little-endian; n <= 100,000,000
//   n bytes   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, …,
//              "__metadata__": {"key": "text"}}
//   rest      the values: row-major, little-endian; offsets count from here, and the entries fill
//             the rest without hole or overlap
// safetensors_header.h holds the JSON part.
// ref: https://github.com/huggingface/safetensors, "Format".
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
  bool has_checksum = false;  // the file had one, and it was right
};

/// Reads a file. Entries may be in any order, and may be 0-d or of zero size. If the file has the
/// checksum that write() makes, read() compares it.
/// dtypes: f16 bf16 f32 f64 u8 i8 i16 i32 i64 bool.
/// throws: FileError if the file cannot be read; DataError that names the file, the entry and the
/// values that do not fit.
LATHE_API Contents read(const std::string& path);

/// Like read(), but from the bytes of a safetensors file in memory. `name` stands for the file in
/// messages.
/// throws: DataError, OutOfMemoryError.
LATHE_API Contents parse(std::span<const std::byte> bytes, std::string_view name);

/// Writes tensors to a file. At any moment `path` is the complete old file or the complete new one.
/// Tensors may be on any device and have any strides. The values are written row-major; at most one
/// tensor at a time is copied for that. The checksum becomes part of the metadata.
/// throws: FileError; ValueError for a name that is not UTF-8, a header of more than 100,000,000
/// bytes, or metadata with the checksum's key.
LATHE_API void write(const std::string& path, const StateDict& tensors,
                     const Metadata& metadata = {});

/// Note [The checksum in a safetensors file]
/// write() begins the header with {"__metadata__":{"lathe.crc32c":"xxxxxxxx", where the x are the
/// hexadecimal digits of the CRC-32C of the whole file with these eight digits as zeros. A reader
/// compares the checksum only if the header begins exactly like this. Other programs see the
/// checksum as a metadata string; a program that rewrites the file should remove it.
inline constexpr std::string_view kChecksumKey = "lathe.crc32c";

}  // namespace lathe::safetensors
