// WebP through libwebp. Contract: decode.h.
#include <webp/decode.h>

#include <cstdlib>
#include <memory>

#include "lathe/core/error.h"
#include "lathe/core/shared_library.h"
#include "lathe/data/images/decode.h"

namespace lathe::data {
namespace {

/// The functions that are called here. WebPGetFeatures and WebPInitDecoderConfig are inline.
struct Libwebp {
  SharedLibrary& library;
  LATHE_FUNCTION(WebPGetFeaturesInternal);
  LATHE_FUNCTION(WebPInitDecoderConfigInternal);
  LATHE_FUNCTION(WebPDecode);
};

const Libwebp& libwebp() {
  static SharedLibrary& library =
      *new SharedLibrary({.name = "libwebp",
                          .file = LATHE_LIBRARY_FILE,
                          .folder = LATHE_LIBRARY_FOLDER,
                          .advice = "install libwebp, or build with LATHE_WEBP=OFF",
                          .of_gpu = false});
  static const Libwebp functions{library};
  return functions;
}

// What libwebp needs beside the picture is a few times its bytes, and tables of less than this.
constexpr size_t kTables = size_t{4} << 20;

bool has_room(size_t bytes) {
  const std::unique_ptr<void, decltype(&std::free)> room(std::malloc(bytes), std::free);
  return room != nullptr;
}

// libwebp 1.5 says that it has no memory also of codes that are damaged.
void check(VP8StatusCode status, const std::filesystem::path& path, size_t picture = 0) {
  const bool is_short = status == VP8_STATUS_OUT_OF_MEMORY && !has_room(4 * picture + kTables);
  LATHE_CHECK(OutOfMemoryError, !is_short, path.string(), ": libwebp has no memory for it");
  LATHE_CHECK(DataError, status == VP8_STATUS_OK, path.string(), ": is a damaged WebP file",
              status == VP8_STATUS_NOT_ENOUGH_DATA ? ": it ends too early" : "");
}

}  // namespace

ImageSpec webp_spec(FileBytes file, const std::filesystem::path& path) {
  WebPBitstreamFeatures features;
  check(libwebp().WebPGetFeaturesInternal(file.data(), file.size(), &features,
                                          WEBP_DECODER_ABI_VERSION),
        path);
  LATHE_CHECK(DataError, features.has_animation == 0, path.string(),
              ": is an animated WebP file; only still images are read");
  return {3, features.height, features.width};
}

ImageSpec decode_webp(FileBytes file, const std::filesystem::path& path,
                      std::vector<uint8_t>& pixels) {
  thread_local std::vector<uint8_t> interleaved;
  const ImageSpec spec = webp_spec(file, path);
  interleaved.resize(static_cast<size_t>(spec.pixels()));
  WebPDecoderConfig config;
  LATHE_CHECK(DataError,
              libwebp().WebPInitDecoderConfigInternal(&config, WEBP_DECODER_ABI_VERSION) != 0,
              path.string(), ": libwebp is of another version than its headers");
  config.output.colorspace = MODE_RGB;  // without the alpha channel
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = interleaved.data(),
                          .stride = static_cast<int>(3 * spec.width),
                          .size = interleaved.size()};
  check(libwebp().WebPDecode(file.data(), file.size(), &config), path, interleaved.size());
  pixels.resize(interleaved.size());
  planes_of(interleaved.data(), spec.height * spec.width, 3, pixels.data());
  return spec;
}

}  // namespace lathe::data
