// JPEG through libjpeg-turbo: header, scaled decoding, and CMYK files. The contract is in decode.h.
#include <turbojpeg.h>

#include <memory>

#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/encode.h"

namespace lathe::data {
namespace {

/// A decoder for one file only: for a second file without tables of its own it would use those of
/// the first.
class Decoder {
 public:
  Decoder(FileBytes file, const std::filesystem::path& path)
      : file_(file), path_(path), handle_(tjInitDecompress()) {
    LATHE_CHECK(OutOfMemoryError, handle_ != nullptr, "libjpeg-turbo has no memory for a decoder");
    int subsampling = 0;
    check(tjDecompressHeader3(handle_.get(), file_.data(), file_.size(), &width_, &height_,
                              &subsampling, &colors_));
    // A file that ends before its size is no error to the library.
    LATHE_CHECK(DataError, width_ > 0 && height_ > 0, path_.string(),
                ": is a damaged JPEG file: it ends before the size of its image");
  }

  int width() const { return width_; }
  int height() const { return height_; }
  bool is_cmyk() const { return colors_ == TJCS_CMYK || colors_ == TJCS_YCCK; }

  void decode(int width, int height, TJPF format, uint8_t* pixels) {
    // A limit on scans, because a small progressive file can take hours to decode.
    check(tjDecompress2(handle_.get(), file_.data(), file_.size(), pixels, width,
                        width * tjPixelSize[format], height, format,
                        TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS));
  }

 private:
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };

  void check(int status) const {
    LATHE_CHECK(DataError, status == 0, path_.string(),
                ": is a damaged JPEG file: ", tjGetErrorStr2(handle_.get()));
  }

  FileBytes file_;
  const std::filesystem::path& path_;
  std::unique_ptr<void, Destroy> handle_;
  int width_ = 0, height_ = 0, colors_ = 0;
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

}  // namespace

ImageSpec jpeg_spec(FileBytes file, const std::filesystem::path& path) {
  const Decoder decoder(file, path);
  return {3, decoder.height(), decoder.width()};
}

ImageSpec decode_jpeg(FileBytes file, const std::filesystem::path& path, int denominator,
                      std::vector<uint8_t>& pixels) {
  Decoder decoder(file, path);
  const tjscalingfactor scale{1, denominator};
  const int width = TJSCALED(decoder.width(), scale), height = TJSCALED(decoder.height(), scale);
  const TJPF format = decoder.is_cmyk() ? TJPF_CMYK : TJPF_RGB;
  const int64_t count = int64_t{width} * height;

  thread_local std::vector<uint8_t> interleaved;
  interleaved.resize(static_cast<size_t>(count * tjPixelSize[format]));
  decoder.decode(width, height, format, interleaved.data());
  if (decoder.is_cmyk()) cmyk_to_rgb(interleaved);
  pixels.resize(static_cast<size_t>(3 * count));
  planes_of(interleaved.data(), count, tjPixelSize[format], pixels.data());
  return {3, height, width};
}

std::string encode_jpeg(const Pixels& pixels, const std::filesystem::path& path, int quality) {
  struct Encoder {
    Encoder() : handle(tjInitCompress()) {}
    ~Encoder() {
      if (handle != nullptr) tjDestroy(handle);
      tjFree(bytes);
    }
    Encoder(const Encoder&) = delete;
    Encoder& operator=(const Encoder&) = delete;

    tjhandle handle;
    unsigned char* bytes = nullptr;
    unsigned long size = 0;
  } encoder;
  LATHE_CHECK(OutOfMemoryError, encoder.handle != nullptr,
              "libjpeg-turbo has no memory for an encoder");
  const bool is_grey = pixels.channels == 1;
  const int status =
      tjCompress2(encoder.handle, pixels.bytes, pixels.width, pixels.width * pixels.channels,
                  pixels.height, is_grey ? TJPF_GRAY : TJPF_RGB, &encoder.bytes, &encoder.size,
                  is_grey ? TJSAMP_GRAY : TJSAMP_444, quality, TJFLAG_ACCURATEDCT);
  LATHE_CHECK(DataError, status == 0, path.string(),
              ": cannot be encoded as JPEG: ", tjGetErrorStr2(encoder.handle));
  return {reinterpret_cast<const char*>(encoder.bytes), encoder.size};
}

}  // namespace lathe::data
