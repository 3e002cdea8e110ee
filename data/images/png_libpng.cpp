// PNG through libpng. Contract: decode.h.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {
namespace {

/// A file whose header was read.
/// It does not use libpng's simplified interface: that takes 16-bit samples as proportional to
/// light and converts images with a gAMA chunk, while Pillow takes a sample's upper byte as it is.
class Reader {
 public:
  Reader(FileBytes file, const std::filesystem::path& path) : rest_(file), path_(path) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_) info_ = png_create_info_struct(png_);
    try {
      LATHE_CHECK(OutOfMemoryError, info_ != nullptr, "libpng has no memory for a decoder");
      call([](Reader& r) {
        png_set_read_fn(r.png_, &r, on_read);
        png_set_benign_errors(r.png_, 1);
        // Only IHDR, PLTE, tRNS and IDAT are read.
        png_set_keep_unknown_chunks(r.png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        png_read_info(r.png_, r.info_);
      });
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  ImageSpec spec() const {
    return {3, png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  /// Reads all pixels as R G B.
  void read(std::vector<uint8_t>& pixels) {
    call([](Reader& r) {
      const int color = png_get_color_type(r.png_, r.info_);
      png_set_expand(r.png_);  // palettes, and grey of less than 8 bits
      png_set_strip_16(r.png_);
      if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(r.png_);
      png_set_strip_alpha(r.png_);
      r.passes_ = png_set_interlace_handling(r.png_);
      png_read_update_info(r.png_, r.info_);
    });
    const ImageSpec all = spec();
    const auto row_bytes = static_cast<size_t>(3 * all.width);
    LATHE_CHECK(DataError, png_get_rowbytes(png_, info_) == row_bytes, path_.string(),
                ": is a PNG file of an unknown kind");
    pixels.resize(row_bytes * static_cast<size_t>(all.height));
    to_ = pixels.data();
    call([](Reader& r) {
      const png_uint_32 height = png_get_image_height(r.png_, r.info_);
      const size_t step = png_get_rowbytes(r.png_, r.info_);
      for (int pass = 0; pass < r.passes_; ++pass) {
        for (png_uint_32 y = 0; y < height; ++y) png_read_row(r.png_, r.to_ + y * step, nullptr);
      }
    });
  }

 private:
  /// libpng leaves `calls` by longjmp, so nothing with a destructor may live in there.
  void call(void (*calls)(Reader&)) {
    if (setjmp(png_jmpbuf(png_)) == 0) return calls(*this);
    LATHE_FAIL(DataError, path_.string(), ": is a damaged PNG file: ", message_.data());
  }

  static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<Reader*>(png_get_error_ptr(png));
    std::strncpy(self.message_.data(), message, self.message_.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, size_t bytes) {
    auto& self = *static_cast<Reader*>(png_get_io_ptr(png));
    if (bytes > self.rest_.size()) png_error(png, "it ends too early");
    std::memcpy(to, self.rest_.data(), bytes);
    self.rest_ = self.rest_.subspan(bytes);
  }

  FileBytes rest_;  // not yet read
  const std::filesystem::path& path_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  uint8_t* to_ = nullptr;
  std::array<char, 256> message_ = {};
};

}  // namespace

ImageSpec png_spec(FileBytes file, const std::filesystem::path& path) {
  return Reader(file, path).spec();
}

ImageSpec decode_png(FileBytes file, const std::filesystem::path& path,
                     std::vector<uint8_t>& pixels) {
  thread_local std::vector<uint8_t> interleaved;
  Reader reader(file, path);
  reader.read(interleaved);
  const ImageSpec spec = reader.spec();
  pixels.resize(static_cast<size_t>(spec.pixels()));
  planes_of(interleaved.data(), spec.height * spec.width, 3, pixels.data());
  return spec;
}

std::string encode_png(const Pixels& pixels, const std::filesystem::path& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  const int done =
      png_image_write_to_memory(&image, file.data(), &size, 0, pixels.bytes, 0, nullptr);
  LATHE_CHECK(DataError, done != 0, path.string(), ": cannot be encoded as PNG: ", image.message);
  file.resize(size);
  return file;
}

}  // namespace lathe::data
