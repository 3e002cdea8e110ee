// ByteStream: the bytes of a file from front to back; a gzip file is inflated on the way.
// byte_stream.cpp has plain files; byte_stream_zlib.cpp has gzip, byte_stream_none.cpp is for
// builds without zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "lathe/core/config.h"

namespace lathe::data {

/// A source of bytes with a name for error messages.
class LATHE_API ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Writes up to `bytes` bytes to `out` and returns how many. Fewer than asked for come only at
  /// the end.
  /// throws: FileError if reading fails; DataError if a gzip file is truncated, corrupted, followed
  /// by other bytes, or inflates to more than size_bound().
  virtual size_t read(void* out, size_t bytes) = 0;

  /// The most bytes that the stream can give, known before reading: the file's size or, for gzip,
  /// the limit of core/formats/deflate.h, beyond which read() throws. Readers check declared sizes
  /// against it before they allocate memory for them.
  virtual uint64_t size_bound() const = 0;

  /// True if size_bound() is exactly what the stream still gives.
  virtual bool size_is_known() const = 0;
};

/// Opens a file. A gzip file (by its first two bytes, whatever its name) is inflated.
/// throws: FileError if it cannot be opened or is no regular file; DataError for gzip in a build
/// without zlib.
LATHE_API std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

/// Reads exactly `bytes` bytes.
/// throws: DataError "<path>: ends after <n> bytes of <what>, which needs <bytes>".
LATHE_API void read_exact(ByteStream& stream, void* out, size_t bytes,
                          const std::filesystem::path& path, const char* what);

/// The inflated content of a gzip stream. Several gzip members in a row count as one stream.
/// throws: DataError in a build without zlib.
std::unique_ptr<ByteStream> inflate(std::unique_ptr<ByteStream> compressed,
                                    const std::filesystem::path& path);

/// False in a build without zlib.
LATHE_API bool gzip_available();

}  // namespace lathe::data
