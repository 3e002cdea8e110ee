// PNG through libpng. Contract: decode.h.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/shared_library.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {
namespace {

/// The functions that are called here.
struct Libpng {
  SharedLibrary& library;
  LATHE_FUNCTION(png_create_read_struct);
  LATHE_FUNCTION(png_create_info_struct);
  LATHE_FUNCTION(png_set_read_fn);
  LATHE_FUNCTION(png_set_benign_errors);
  LATHE_FUNCTION(png_set_keep_unknown_chunks);
  LATHE_FUNCTION(png_read_info);
  LATHE_FUNCTION(png_destroy_read_struct);
  LATHE_FUNCTION(png_get_image_height);
  LATHE_FUNCTION(png_get_image_width);
  LATHE_FUNCTION(png_get_color_type);
  LATHE_FUNCTION(png_set_expand);
  LATHE_FUNCTION(png_set_strip_16);
  LATHE_FUNCTION(png_set_gray_to_rgb);
  LATHE_FUNCTION(png_set_strip_alpha);
  LATHE_FUNCTION(png_set_interlace_handling);
  LATHE_FUNCTION(png_read_update_info);
  LATHE_FUNCTION(png_get_rowbytes);
  LATHE_FUNCTION(png_read_row);
  LATHE_FUNCTION(png_get_error_ptr);
  LATHE_FUNCTION(png_longjmp);
  LATHE_FUNCTION(png_get_io_ptr);
  LATHE_FUNCTION(png_error);
  LATHE_FUNCTION(png_set_longjmp_fn);
  LATHE_FUNCTION(png_image_write_to_memory);
};

const Libpng& libpng() {
  static SharedLibrary& library = *new SharedLibrary(
      {.name = "libpng",
       .file = LATHE_LIBRARY_FILE,
       .folder = LATHE_LIBRARY_FOLDER,
       .built = {PNG_LIBPNG_VER_MAJOR, PNG_LIBPNG_VER_MINOR, PNG_LIBPNG_VER_RELEASE},
       .advice = "install libpng 1.6, or build with LATHE_PNG=OFF",
       .of_gpu = false});
  static const Libpng functions{library};
  return functions;
}

/// A file whose header was read.
/// It does not use libpng's simplified interface: that takes 16-bit samples as proportional to
/// light and converts images with a gAMA chunk, while Pillow takes a sample's upper byte as it is.
class Reader {
 public:
  Reader(FileBytes file, const std::filesystem::path& path) : rest_(file), path_(path) {
    png_ = libpng().png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_) info_ = libpng().png_create_info_struct(png_);
    try {
      LATHE_CHECK(OutOfMemoryError, info_ != nullptr, "libpng has no memory for a decoder");
      call([](Reader& r) {
        libpng().png_set_read_fn(r.png_, &r, on_read);
        libpng().png_set_benign_errors(r.png_, 1);
        // Only IHDR, PLTE, tRNS and IDAT are read.
        libpng().png_set_keep_unknown_chunks(r.png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        libpng().png_read_info(r.png_, r.info_);
      });
    } catch (...) {
      libpng().png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { libpng().png_destroy_read_struct(&png_, &info_, nullptr); }

  ImageSpec spec() const {
    return {3, libpng().png_get_image_height(png_, info_),
            libpng().png_get_image_width(png_, info_)};
  }

  /// Reads all pixels as R G B.
  void read(std::vector<uint8_t>& pixels) {
    call([](Reader& r) {
      const int color = libpng().png_get_color_type(r.png_, r.info_);
      libpng().png_set_expand(r.png_);  // palettes, and grey of less than 8 bits
      libpng().png_set_strip_16(r.png_);
      if ((color & PNG_COLOR_MASK_COLOR) == 0) libpng().png_set_gray_to_rgb(r.png_);
      libpng().png_set_strip_alpha(r.png_);
      r.passes_ = libpng().png_set_interlace_handling(r.png_);
      libpng().png_read_update_info(r.png_, r.info_);
    });
    const ImageSpec all = spec();
    const auto row_bytes = static_cast<size_t>(3 * all.width);
    LATHE_CHECK(DataError, libpng().png_get_rowbytes(png_, info_) == row_bytes, path_.string(),
                ": is a PNG file of an unknown kind");
    pixels.resize(row_bytes * static_cast<size_t>(all.height));
    to_ = pixels.data();
    call([](Reader& r) {
      const png_uint_32 height = libpng().png_get_image_height(r.png_, r.info_);
      const size_t step = libpng().png_get_rowbytes(r.png_, r.info_);
      for (int pass = 0; pass < r.passes_; ++pass) {
        for (png_uint_32 y = 0; y < height; ++y)
          libpng().png_read_row(r.png_, r.to_ + y * step, nullptr);
      }
    });
  }

 private:
  /// libpng leaves `calls` by longjmp, so nothing with a destructor may live in there.
  void call(void (*calls)(Reader&)) {
    if (setjmp(*libpng().png_set_longjmp_fn(png_, std::longjmp, sizeof(std::jmp_buf))) == 0)
      return calls(*this);
    LATHE_FAIL(DataError, path_.string(), ": is a damaged PNG file: ", message_.data());
  }

  static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<Reader*>(libpng().png_get_error_ptr(png));
    std::strncpy(self.message_.data(), message, self.message_.size() - 1);
    libpng().png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, size_t bytes) {
    auto& self = *static_cast<Reader*>(libpng().png_get_io_ptr(png));
    if (bytes > self.rest_.size()) libpng().png_error(png, "it ends too early");
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
      libpng().png_image_write_to_memory(&image, file.data(), &size, 0, pixels.bytes, 0, nullptr);
  LATHE_CHECK(DataError, done != 0, path.string(), ": cannot be encoded as PNG: ", image.message);
  file.resize(size);
  return file;
}

}  // namespace lathe::data
