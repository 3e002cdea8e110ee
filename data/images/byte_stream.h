// Bytes of a file from front to back, inflated on the way when the file is gzip.
// byte_stream.cpp holds the plain file; inflate_zlib.cpp or (in a build without zlib)
// inflate_none.cpp the gzip one.
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

  /// Writes up to `bytes` bytes to `out` and returns how many; fewer than asked for only at the
  /// end.
  /// throws: FileError (reading failed), DataError (gzip: truncated, corrupted, followed by other
  /// bytes, or inflating to more than size_bound()).
  virtual size_t read(void* out, size_t bytes) = 0;

  /// The most bytes that the stream gives, known before reading it: the file's size, or for gzip
  /// the limit of core/formats/deflate.h, beyond which read() throws. Declared sizes are checked against it
  /// before memory is allocated for them.
  virtual uint64_t size_bound() const = 0;

  /// True if size_bound() is exactly what the stream can still give.
  virtual bool size_is_known() const = 0;
};

/// Opens a file; a gzip file (by its first two bytes, whatever its name) is inflated.
/// throws: FileError (cannot be opened or is no regular file), DataError (gzip in a build without
/// zlib).
LATHE_API std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

/// Reads exactly `bytes` bytes.
/// throws: DataError "<path>: ends after <n> bytes of <what>, which needs <bytes>".
LATHE_API void read_exact(ByteStream& stream, void* out, size_t bytes,
                          const std::filesystem::path& path, const char* what);

/// The inflated content of a gzip stream. Several gzip members one after another count as one
/// stream.
/// throws: DataError in a build without zlib.
std::unique_ptr<ByteStream> inflate(std::unique_ptr<ByteStream> compressed,
                                    const std::filesystem::path& path);

/// False in a build without zlib.
LATHE_API bool gzip_available();

}  // namespace lathe::data
