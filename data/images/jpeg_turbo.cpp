// JPEG through libjpeg-turbo: header, scaled decoding, and CMYK files. It uses libjpeg's interface,
// because TurboJPEG's does not tell harmless warnings from damage. Contract: decode.h.
#include <cstdio>  // jpeglib.h needs FILE, and jerror.h needs jpeglib.h

#include <jpeglib.h>

#include <jerror.h>

#include <array>
#include <csetjmp>
#include <cstdlib>

#include "lathe/core/error.h"
#include "lathe/core/shared_library.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {
namespace {

/// The functions that are called here.
struct Libjpeg {
  SharedLibrary& library;
  LATHE_FUNCTION(jpeg_std_error);
  LATHE_FUNCTION(jpeg_mem_src);
  LATHE_FUNCTION(jpeg_read_header);
  LATHE_FUNCTION(jpeg_destroy_decompress);
  LATHE_FUNCTION(jpeg_start_decompress);
  LATHE_FUNCTION(jpeg_read_scanlines);
  LATHE_FUNCTION(jpeg_destroy_compress);
  LATHE_FUNCTION(jpeg_mem_dest);
  LATHE_FUNCTION(jpeg_set_defaults);
  LATHE_FUNCTION(jpeg_set_quality);
  LATHE_FUNCTION(jpeg_start_compress);
  LATHE_FUNCTION(jpeg_write_scanlines);
  LATHE_FUNCTION(jpeg_finish_compress);
  LATHE_FUNCTION(jpeg_CreateDecompress);
  LATHE_FUNCTION(jpeg_CreateCompress);
};

const Libjpeg& libjpeg() {
  static SharedLibrary& library = *new SharedLibrary(
      {.name = "libjpeg-turbo",
       .file = LATHE_LIBRARY_FILE,
       .folder = LATHE_LIBRARY_FOLDER,
       .advice = "install this file of libjpeg-turbo, or build with LATHE_JPEG=OFF",
       .of_gpu = false});
  static const Libjpeg functions{library};
  return functions;
}

/// libjpeg's errors and warnings. It leaves a call by longjmp, so nothing with a destructor may
/// live there.
struct Messages : jpeg_error_mgr {
  Messages() {
    libjpeg().jpeg_std_error(this);
    error_exit = [](j_common_ptr image) { of(image).fail(image); };
    emit_message = [](j_common_ptr image, int level) {
      constexpr int kWarning = -1;  // above: what it has read
      Messages& self = of(image);
      if (level == kWarning && !self.is_harmless()) self.fail(image);
    };
  }

  /// Calls run(self).   → false if it failed; then `text` says why
  template <class Self>
  bool call(void (*run)(Self&), Self& self) {
    if (setjmp(leave) != 0) return false;
    run(self);
    return true;
  }

  [[noreturn]] void fail(j_common_ptr image) {
    format_message(image, text.data());
    std::longjmp(leave, 1);
  }

  static Messages& of(j_common_ptr image) { return *static_cast<Messages*>(image->err); }

  /// Whether the pixels are the same without what the warning is about. Where data of pixels is
  /// missing, the Huffman decoder warns of that, too.
  bool is_harmless() const {
    switch (msg_code) {
      case JWRN_JFIF_MAJOR:       // an unknown revision
      case JWRN_ADOBE_XFORM:      // an unknown colour transform: the usual one is taken
      case JWRN_NOT_SEQUENTIAL:   // parameters that only progressive files need
      case JWRN_EXTRANEOUS_DATA:  // bytes before a marker
        return true;
      case JWRN_JPEG_EOF: return may_end;
      default: return false;
    }
  }

  std::jmp_buf leave;
  bool may_end = false;  // whether the file may end where it is read now
  std::array<char, JMSG_LENGTH_MAX> text = {};
};

[[noreturn]] void fail(const Messages& messages, const std::filesystem::path& path,
                       const char* what) {
  const char* const text = messages.text.data();
  if (messages.msg_code == JERR_OUT_OF_MEMORY)
    LATHE_FAIL(OutOfMemoryError, path.string(), ": ", text);
  LATHE_FAIL(DataError, path.string(), ": ", what, ": ", text);
}

/// A decoder for one file only: for a second file without tables of its own it would use those of
/// the first.
class Decoder {
 public:
  Decoder(FileBytes file, const std::filesystem::path& path) : file_(file), path_(path) {
    image_.err = &messages_;
    try {
      call([](Decoder& d) {
        libjpeg().jpeg_CreateDecompress(&d.image_, JPEG_LIB_VERSION, sizeof(d.image_));
        d.image_.progress = &d.progress_;
        libjpeg().jpeg_mem_src(&d.image_, d.file_.data(), d.file_.size());
        libjpeg().jpeg_read_header(&d.image_, TRUE);
      });
    } catch (...) {
      libjpeg().jpeg_destroy_decompress(&image_);
      throw;
    }
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { libjpeg().jpeg_destroy_decompress(&image_); }

  ImageSpec spec() const { return {3, image_.image_height, image_.image_width}; }
  bool is_cmyk() const {
    return image_.jpeg_color_space == JCS_CMYK || image_.jpeg_color_space == JCS_YCCK;
  }

  /// Decodes at 1/denominator of the size into pixels of 3 or, of a CMYK file, 4 bytes.
  ImageSpec decode(int denominator, std::vector<uint8_t>& pixels) {
    image_.scale_num = 1;
    image_.scale_denom = static_cast<unsigned>(denominator);
    image_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    call([](Decoder& d) { libjpeg().jpeg_start_decompress(&d.image_); });
    row_bytes_ = size_t{image_.output_width} * static_cast<size_t>(image_.output_components);
    pixels.resize(row_bytes_ * image_.output_height);
    to_ = pixels.data();
    // Of one scan, all that follows is data of pixels. Of several, all were read above. Whether one
    // with arithmetic coding is whole is not told.
    messages_.may_end = image_.arith_code == FALSE;
    call([](Decoder& d) {
      while (d.image_.output_scanline < d.image_.output_height) {
        JSAMPROW row = d.to_ + d.image_.output_scanline * d.row_bytes_;
        libjpeg().jpeg_read_scanlines(&d.image_, &row, 1);
      }
    });
    return {3, image_.output_height, image_.output_width};
  }

 private:
  /// Limits the scans, because a small progressive file can take hours to decode.
  struct Progress : jpeg_progress_mgr {
    Progress() : jpeg_progress_mgr{} {
      progress_monitor = [](j_common_ptr image) {
        constexpr int kMostScans = 500;
        if (reinterpret_cast<j_decompress_ptr>(image)->input_scan_number <= kMostScans) return;
        Messages& messages = Messages::of(image);
        std::snprintf(messages.text.data(), messages.text.size(), "it has more than %d scans",
                      kMostScans);
        std::longjmp(messages.leave, 1);
      };
    }
  };

  void call(void (*run)(Decoder&)) {
    if (!messages_.call(run, *this)) fail(messages_, path_, "is a damaged JPEG file");
  }

  FileBytes file_;
  const std::filesystem::path& path_;
  Messages messages_;
  Progress progress_;
  jpeg_decompress_struct image_ = {};
  size_t row_bytes_ = 0;
  uint8_t* to_ = nullptr;
};

/// a * b / 255, rounded.
int product(int a, int b) {
  const int p = a * b + 128;
  return (p + (p >> 8)) >> 8;
}

/// Pixels C M Y K as Adobe stores them (0 is full ink) become R G B K.
void cmyk_to_rgb(std::vector<uint8_t>& pixels) {
  for (size_t k = 0; k + 3 < pixels.size(); k += 4) {
    const int light = pixels[k + 3];
    for (size_t c = k; c < k + 3; ++c)
      pixels[c] = static_cast<uint8_t>(light - product(255 - pixels[c], light));
  }
}

class Encoder {
 public:
  Encoder(const Pixels& pixels, const std::filesystem::path& path, int quality)
      : pixels_(pixels), quality_(quality) {
    image_.err = &messages_;
    const bool done = messages_.call(encode, *this);
    libjpeg().jpeg_destroy_compress(&image_);
    // libjpeg's buffer is lost then: where it is, only libjpeg knows.
    if (!done) fail(messages_, path, "cannot be encoded as JPEG");
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() { std::free(bytes_); }

  std::string file() const { return {reinterpret_cast<const char*>(bytes_), size_}; }

 private:
  static void encode(Encoder& e) {
    jpeg_compress_struct& image = e.image_;
    const Pixels& pixels = e.pixels_;
    libjpeg().jpeg_CreateCompress(&image, JPEG_LIB_VERSION, sizeof(image));
    libjpeg().jpeg_mem_dest(&image, &e.bytes_, &e.size_);
    image.image_width = static_cast<JDIMENSION>(pixels.width);
    image.image_height = static_cast<JDIMENSION>(pixels.height);
    image.input_components = pixels.channels;
    image.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    libjpeg().jpeg_set_defaults(&image);
    libjpeg().jpeg_set_quality(&image, e.quality_, TRUE);
    image.comp_info[0].h_samp_factor = image.comp_info[0].v_samp_factor = 1;  // 4:4:4
    libjpeg().jpeg_start_compress(&image, TRUE);
    while (image.next_scanline < image.image_height) {
      const size_t first =
          size_t{image.next_scanline} * image.image_width * static_cast<size_t>(pixels.channels);
      JSAMPROW row = const_cast<uint8_t*>(pixels.bytes + first);
      libjpeg().jpeg_write_scanlines(&image, &row, 1);
    }
    libjpeg().jpeg_finish_compress(&image);
  }

  const Pixels& pixels_;
  int quality_;
  Messages messages_;
  jpeg_compress_struct image_ = {};
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

ImageSpec jpeg_spec(FileBytes file, const std::filesystem::path& path) {
  return Decoder(file, path).spec();
}

ImageSpec decode_jpeg(FileBytes file, const std::filesystem::path& path, int denominator,
                      std::vector<uint8_t>& pixels) {
  thread_local std::vector<uint8_t> interleaved;
  Decoder decoder(file, path);
  const ImageSpec spec = decoder.decode(denominator, interleaved);
  if (decoder.is_cmyk()) cmyk_to_rgb(interleaved);
  const int64_t count = spec.height * spec.width;
  pixels.resize(static_cast<size_t>(3 * count));
  planes_of(interleaved.data(), count, decoder.is_cmyk() ? 4 : 3, pixels.data());
  return spec;
}

std::string encode_jpeg(const Pixels& pixels, const std::filesystem::path& path, int quality) {
  return Encoder(pixels, path, quality).file();
}

}  // namespace lathe::data
