// Replaces byte_stream_zlib.cpp in a build without zlib: gzip files throw. Contract: byte_stream.h.
#include "lathe/core/error.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {

std::unique_ptr<ByteStream> inflate(std::unique_ptr<ByteStream>,
                                    const std::filesystem::path& path) {
  LATHE_FAIL(
      DataError, path.string(),
      ": is gzip, and this build has no zlib (install zlib1g-dev and build again, or gunzip it)");
}

bool gzip_available() { return false; }

}  // namespace lathe::data
