// Replaces png_libpng.cpp in a build without libpng: PNG files throw. Contract: decode.h.
#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {

ImageSpec png_spec(FileBytes, const std::filesystem::path& path) {
  LATHE_FAIL(DataError, path.string(),
             ": is a PNG file, and this build has no libpng; install libpng-dev and build again");
}

ImageSpec decode_png(FileBytes file, const std::filesystem::path& path, std::vector<uint8_t>&) {
  return png_spec(file, path);
}

std::string encode_png(const Pixels&, const std::filesystem::path& path) {
  LATHE_FAIL(DataError, path.string(), ": cannot be written, because this build has no libpng; ",
             "install libpng-dev and build again");
}

}  // namespace lathe::data
