// PNG through libpng's simplified interface, which needs no setjmp; see decode.h.
#include <png.h>

#include "lathe/core/error.h"
#include "lathe/data/decode.h"

namespace lathe::data {
namespace {

/// A file whose header was read.
class Reader {
 public:
  Reader(FileBytes file, const std::filesystem::path& path) : path_(path) {
    image_.version = PNG_IMAGE_VERSION;
    check(png_image_begin_read_from_memory(&image_, file.data(), file.size()));
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_image_free(&image_); }

  ImageSpec spec() const { return {3, image_.height, image_.width}; }

  /// The pixels' bytes: 4, or 3 without alpha channel.
  int read(std::vector<uint8_t>& pixels) {
    const bool alpha = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    image_.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    const int pixel_bytes = alpha ? 4 : 3;
    pixels.resize(static_cast<size_t>(image_.width) * image_.height *
                  static_cast<size_t>(pixel_bytes));
    check(png_image_finish_read(&image_, nullptr, pixels.data(), 0, nullptr));
    return pixel_bytes;
  }

 private:
  void check(int status) {
    LATHE_CHECK(DataError, status != 0, path_.string(),
                ": is a damaged PNG file: ", image_.message);
  }

  const std::filesystem::path& path_;
  png_image image_ = {};
};

}  // namespace

ImageSpec png_spec(FileBytes file, const std::filesystem::path& path) {
  return Reader(file, path).spec();
}

ImageSpec decode_png(FileBytes file, const std::filesystem::path& path,
                     std::vector<uint8_t>& pixels) {
  thread_local std::vector<uint8_t> interleaved;
  Reader reader(file, path);
  const int pixel_bytes = reader.read(interleaved);
  const ImageSpec spec = reader.spec();
  pixels.resize(static_cast<size_t>(spec.pixels()));
  planes_of(interleaved.data(), spec.height * spec.width, pixel_bytes, pixels.data());
  return spec;
}

}  // namespace lathe::data
