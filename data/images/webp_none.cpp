// Replaces webp_libwebp.cpp in a build without libwebp: WebP files throw. Contract: decode.h.
#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"

namespace lathe::data {

ImageSpec webp_spec(FileBytes, const std::filesystem::path& path) {
  LATHE_FAIL(DataError, path.string(), ": is a WebP file, and this build has no libwebp; ",
             "install libwebp-dev and build again");
}

ImageSpec decode_webp(FileBytes file, const std::filesystem::path& path, std::vector<uint8_t>&) {
  return webp_spec(file, path);
}

}  // namespace lathe::data
