// Reading and writing of safetensors files; their JSON header is in safetensors_header.cpp.
#include "lathe/core/formats/safetensors.h"

#include <bit>
#include <cstring>

#include "lathe/core/copy.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/core/files/file.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/function_ref.h"

namespace lathe::safetensors {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in memory");

namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kTogetherBytes = 256 << 10;                          // written in one call
constexpr size_t kChecksumAt = kLengthBytes + kChecksumStart.size();  // of its digits, in the file

std::string checksum_text(uint32_t crc) {
  std::string digits(kChecksumDigits, '0');
  for (size_t i = 0; i < kChecksumDigits; ++i) {
    digits[kChecksumDigits - 1 - i] = "0123456789abcdef"[crc >> (4 * i) & 15u];
  }
  return digits;
}

/// The CRC of the length and the header with zeros for the checksum's digits.
uint32_t crc_of_header(std::string header_with_length) {
  header_with_length.replace(kChecksumAt, kChecksumDigits, kChecksumDigits, '0');
  return crc32c(header_with_length.data(), header_with_length.size());
}

/// throws: DataError for a byte that is not a C++ bool.
void check_bools(const HeaderEntry& entry, const void* values, std::string_view file) {
  const auto* bytes = static_cast<const unsigned char*>(values);
  for (int64_t i = 0; i < entry.end - entry.begin; ++i) {
    LATHE_CHECK(DataError, bytes[i] <= 1, file, ": entry ", in_quotes(entry.name),
                " holds the byte ", bytes[i], " as a bool");
  }
}

/// Reads `bytes` bytes of the file from `offset` on.
using ReadAt = FunctionRef<void(void* to, int64_t bytes, int64_t offset)>;

/// The length and the JSON text of the header. Checks that both are inside the file.
std::string read_start(ReadAt read_at, uint64_t size, std::string_view file) {
  LATHE_CHECK(DataError, size >= kLengthBytes, file, ": ", size,
              " bytes are too few for a safetensors file, which begins with 8 of header length");
  uint64_t header_bytes = 0;
  read_at(&header_bytes, kLengthBytes, 0);
  LATHE_CHECK(DataError, header_bytes <= kMaxHeaderBytes, file, ": the header length ",
              header_bytes, " is above the format's limit of ", kMaxHeaderBytes);
  LATHE_CHECK(DataError, header_bytes <= size - kLengthBytes, file, ": the header length ",
              header_bytes, " does not fit a file of ", size, " bytes");
  std::string text(kLengthBytes + header_bytes, '\0');
  read_at(text.data(), static_cast<int64_t>(text.size()), 0);
  return text;
}

Contents parse_from(ReadAt read_at, uint64_t size, std::string_view file) {
  std::string text = read_start(read_at, size, file);
  const uint64_t start = text.size();  // of the values
  Header header = parse_header(std::string_view(text).substr(kLengthBytes), size - start, file);

  // The values, in the order in which they lie in the file.
  const bool has_checksum = std::string_view(text).substr(kLengthBytes).starts_with(kChecksumStart);
  uint32_t crc = has_checksum ? crc_of_header(std::move(text)) : 0;
  std::string().swap(text);  // no longer needed
  std::vector<Tensor> tensors(header.entries.size());
  for (const size_t i : header.order) {
    const HeaderEntry& entry = header.entries[i];
    tensors[i] = empty(entry.shape, {.dtype = entry.dtype});
    if (entry.begin == entry.end) continue;
    void* values = tensors[i].raw_data();
    read_at(values, entry.end - entry.begin, static_cast<int64_t>(start) + entry.begin);
    if (has_checksum) crc = crc32c(values, static_cast<size_t>(entry.end - entry.begin), crc);
    if (entry.dtype == kBool) check_bools(entry, values, file);
  }
  Contents out;
  for (Tensor& t : tensors) {
    out.tensors.add(std::move(header.entries.front().name), std::move(t));
    header.entries.pop_front();
  }
  if (has_checksum) {
    const auto stored = header.metadata.find(kChecksumKey);
    LATHE_CHECK(DataError, stored->second == checksum_text(crc), file,
                ": the contents have checksum ", checksum_text(crc), " but the file says ",
                stored->second, " (damaged, or rewritten by a program that kept the metadata ",
                kChecksumKey, ")");
    header.metadata.erase(stored);
  }
  out.has_checksum = has_checksum;
  out.metadata = std::move(header.metadata);
  return out;
}

/// The tensor itself if its bytes are as in the file, else a copy.
Tensor as_written(const Tensor& t) {
  if (t.device().is_cpu() && t.is_contiguous()) return t;
  Tensor out = empty(t.shape(), {.dtype = t.dtype()});
  copy_values(out, t);
  return out;
}

}  // namespace

Contents parse(std::span<const std::byte> bytes, std::string_view name) {
  const auto read_at = [&](void* to, int64_t count, int64_t offset) {
    std::memcpy(to, bytes.data() + offset, static_cast<size_t>(count));
  };
  return parse_from(read_at, bytes.size(), name);
}

Contents read(const std::string& path) {
  const InputFile file(path);
  const auto read_at = [&](void* to, int64_t count, int64_t offset) {
    file.read(to, count, offset);
  };
  return parse_from(read_at, static_cast<uint64_t>(file.size()), path);
}

Header read_header(const std::string& path) {
  const InputFile file(path);
  const auto read_at = [&](void* to, int64_t count, int64_t offset) {
    file.read(to, count, offset);
  };
  const auto size = static_cast<uint64_t>(file.size());
  const std::string text = read_start(read_at, size, path);
  return parse_header(std::string_view(text).substr(kLengthBytes), size - text.size(), path);
}

Metadata read_metadata(const std::string& path) { return read_header(path).metadata; }

void write(const std::string& path, const StateDict& tensors, const Metadata& metadata) {
  std::vector<size_t> order;
  std::string header = format_header(tensors, metadata, order);
  uint64_t header_bytes = header.size();
  header.insert(0, reinterpret_cast<const char*>(&header_bytes), kLengthBytes);

  // The checksum comes before the values, so they are made row-major twice, once for the checksum
  // and once to write. Keeping the results of the first pass would take the memory of all values.
  const auto value = [&](size_t i) {
    return as_written(tensors.begin()[static_cast<std::ptrdiff_t>(i)].second);
  };
  uint32_t crc = crc_of_header(header);
  for (const size_t i : order) {
    const Tensor t = value(i);
    crc = crc32c(t.raw_data(), static_cast<size_t>(t.bytes()), crc);
  }
  header.replace(kChecksumAt, kChecksumDigits, checksum_text(crc));

  // Small entries (a batch norm's are a few hundred bytes) are written together.
  AtomicFile file(path);
  std::string together = std::move(header);
  for (const size_t i : order) {
    const Tensor t = value(i);
    const auto bytes = static_cast<size_t>(t.bytes());
    if (together.size() + bytes > kTogetherBytes) {
      file.write(together);
      together.clear();
    }
    if (bytes > kTogetherBytes) {
      file.write(t.raw_data(), bytes);
    } else if (bytes > 0) {
      together.append(static_cast<const char*>(t.raw_data()), bytes);
    }
  }
  file.write(together);
  file.commit();
}

}  // namespace lathe::safetensors
