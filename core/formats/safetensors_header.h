// The JSON header of a safetensors file: reading and writing it. Internal: use safetensors.h.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/formats/safetensors.h"

namespace lathe::safetensors {

/// The longest header that the format allows.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// The beginning of a header that write() made; eight hexadecimal digits follow.
inline constexpr std::string_view kChecksumStart = R"({"__metadata__":{"lathe.crc32c":")";
inline constexpr size_t kChecksumDigits = 8;

/// One entry: where a tensor's values are.
struct HeaderEntry {
  std::string name;
  DType dtype = kF32;
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes from the start of the values
};

struct Header {
  std::deque<HeaderEntry> entries;  // in the text's order; a deque, so that growing moves nothing
  std::vector<size_t> order;        // the entries in the order of their values
  Metadata metadata;
};

/// Reads a header and checks all of it, also against `data_bytes`, the size of the values after it,
/// if that is known. Takes at most three times the text's size in addition to the text.
/// throws: DataError that names `file`, the entry and the values.
Header parse_header(std::string_view json, std::optional<uint64_t> data_bytes,
                    std::string_view file);

/// The header of `tensors`, with zeros for the checksum's digits, padded with blanks so that the
/// values start at a multiple of 8. `order` becomes the order of the values: larger elements first,
/// so that each tensor is aligned to its element size.
/// throws: ValueError.
std::string format_header(const StateDict& tensors, const Metadata& metadata,
                          std::vector<size_t>& order);

/// The header of a file, without its values.
/// throws: FileError, DataError.
Header read_header(const std::string& path);

/// The metadata of a file as its header has it, with the checksum's digits. Checks the whole
/// header, but does not read the values.
/// throws: FileError, DataError.
LATHE_API Metadata read_metadata(const std::string& path);

/// Text from a file for a one-line message: in quotes, escaped, and cut if it is long.
std::string in_quotes(std::string_view text);

}  // namespace lathe::safetensors
