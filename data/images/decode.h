// JPEG, PNG and WebP files in memory as bytes [3,H,W]. Internal to data/; the public class is in
// image_folder.h. The decoders are in jpeg_turbo.cpp, png_libpng.cpp and webp_libwebp.cpp, or in
// jpeg_none.cpp, png_none.cpp and webp_none.cpp for builds without the library.
//
// All functions throw DataError naming the file if it is damaged, truncated or of an unknown kind,
// and in a build without the library. `path` is for that message only.
// The pixels are those of Pillow's Image.open(path).convert("RGB"): grey is repeated three times,
// an alpha channel is dropped, 16-bit samples keep their upper byte (grey ones too, which Pillow
// clips). Gamma, colour profile and EXIF orientation are not applied.
//
// Decoding takes at most four times the bytes of the file and the pixels, and 1 MiB. The exception
// is a lossless WebP file: libwebp makes a table of up to 20 KiB for each group of prefix codes
// before it reads them. A file can name a group per 16 pixels, or 1000 in a small image, and at
// most 65,536: a damaged file of 77 bytes takes 2 MB, no file more than 1.3 GB.
// ref: RFC 9649, meta prefix codes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

using FileBytes = std::span<const uint8_t>;

/// What the header says. Decodes nothing. An animated WebP file has no such header: it is no image.
ImageSpec jpeg_spec(FileBytes file, const std::filesystem::path& path);
ImageSpec png_spec(FileBytes file, const std::filesystem::path& path);
ImageSpec webp_spec(FileBytes file, const std::filesystem::path& path);

/// Decodes the file at 1/denominator of its size (1, 2, 4 or 8; sides rounded up), which is faster
/// in proportion. Data of pixels that is missing or wrong is damage. What changes no pixel is none:
/// bytes before a marker, an unknown JFIF revision, or, in a file of one scan, a missing end
/// marker.
/// → what `pixels` then holds
ImageSpec decode_jpeg(FileBytes file, const std::filesystem::path& path, int denominator,
                      std::vector<uint8_t>& pixels);
ImageSpec decode_png(FileBytes file, const std::filesystem::path& path,
                     std::vector<uint8_t>& pixels);
ImageSpec decode_webp(FileBytes file, const std::filesystem::path& path,
                      std::vector<uint8_t>& pixels);

/// Makes three planes of `count` bytes from pixels of 3 or 4 bytes; a fourth byte is dropped.
void planes_of(const uint8_t* pixels, int64_t count, int bytes_per_pixel, uint8_t* planes);

}  // namespace lathe::data
