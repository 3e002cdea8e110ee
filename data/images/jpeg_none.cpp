// Replaces jpeg_turbo.cpp in a build without libjpeg-turbo: JPEG files throw. Contract: decode.h.
#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {

ImageSpec jpeg_spec(FileBytes, const std::filesystem::path& path) {
  LATHE_FAIL(DataError, path.string(), ": is a JPEG file, and this build has no libjpeg-turbo; ",
             "install libjpeg-dev and build again");
}

ImageSpec decode_jpeg(FileBytes file, const std::filesystem::path& path, int,
                      std::vector<uint8_t>&) {
  return jpeg_spec(file, path);
}

std::string encode_jpeg(const Pixels&, const std::filesystem::path& path, int) {
  LATHE_FAIL(DataError, path.string(), ": cannot be written, because this build has no ",
             "libjpeg-turbo; install libjpeg-dev and build again");
}

}  // namespace lathe::data
