// ImageFile: tells the kinds of files apart by the first bytes and chooses the size to decode at.
#include "lathe/data/images/image_file.h"

#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/data/images/byte_stream.h"
#include "lathe/data/transforms/resize.h"

namespace lathe::data {
namespace {

constexpr char kUnknownKind[] = ": is neither JPEG, PNG nor WebP";

bool starts_with(FileBytes file, std::initializer_list<uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

/// A RIFF file of the form WEBP; its size stands between the two.
bool is_webp(FileBytes file) {
  constexpr size_t kForm = 8;
  return starts_with(file, {'R', 'I', 'F', 'F'}) && file.size() >= kForm &&
         starts_with(file.subspan(kForm), {'W', 'E', 'B', 'P'});
}

template <int kBytes>
LATHE_CLONES void split(const uint8_t* __restrict__ pixels, int64_t count, uint8_t* __restrict__ r,
                        uint8_t* __restrict__ g, uint8_t* __restrict__ b) {
  for (int64_t k = 0; k < count; ++k) {
    r[k] = pixels[k * kBytes];
    g[k] = pixels[k * kBytes + 1];
    b[k] = pixels[k * kBytes + 2];
  }
}

}  // namespace

void planes_of(const uint8_t* pixels, int64_t count, int bytes_per_pixel, uint8_t* planes) {
  if (bytes_per_pixel == 4)
    return split<4>(pixels, count, planes, planes + count, planes + 2 * count);
  split<3>(pixels, count, planes, planes + count, planes + 2 * count);
}

void ImageFile::open(const std::filesystem::path& path, const ImageFileLimits& limits) {
  path_ = path;
  const auto stream = open_stream(path);
  const auto size = static_cast<int64_t>(stream->size_bound());
  LATHE_CHECK(DataError, size <= limits.file_bytes, path.string(), ": has ", size,
              " bytes; the limit for an image file is ", limits.file_bytes);
  LATHE_CHECK(DataError, stream->size_is_known(), path.string(), kUnknownKind);
  bytes_.resize(static_cast<size_t>(size));
  read_exact(*stream, bytes_.data(), bytes_.size(), path, "an image file");

  LATHE_CHECK(DataError, size > 0, path.string(), ": is empty");
  if (starts_with(bytes_, {0xff, 0xd8, 0xff})) {
    kind_ = Kind::kJpeg;
    spec_ = jpeg_spec(bytes_, path);
  } else if (starts_with(bytes_, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'})) {
    kind_ = Kind::kPng;
    spec_ = png_spec(bytes_, path);
  } else {
    LATHE_CHECK(DataError, is_webp(bytes_), path.string(), kUnknownKind);
    kind_ = Kind::kWebp;
    spec_ = webp_spec(bytes_, path);
  }
  // The decoder of JPEG works on whole blocks of up to 32 rows or columns, and so does its memory.
  const int64_t block = kind_ == Kind::kJpeg ? 32 : 1;
  const int64_t decoded = round_up(spec_.height, block) * round_up(spec_.width, block);
  LATHE_CHECK(DataError,
              std::max(spec_.height, spec_.width) <= kMaxImageSide && decoded <= limits.pixels,
              path.string(), ": is an image of ", spec_.height, "x", spec_.width, "; the limit is ",
              limits.pixels, " pixels, and ", kMaxImageSide, " on a side");
}

ImageSpec ImageFile::decode(double detail) {
  if (kind_ == Kind::kPng) return decode_png(bytes_, path_, pixels_);
  if (kind_ == Kind::kWebp) return decode_webp(bytes_, path_, pixels_);
  int denominator = 1;
  while (denominator < 8 && detail * 2 * denominator <= 1) denominator *= 2;
  return decode_jpeg(bytes_, path_, denominator, pixels_);
}

}  // namespace lathe::data
