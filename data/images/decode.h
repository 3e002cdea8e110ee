// JPEG and PNG files in memory as bytes [3,H,W]. Internal to data/; users see image_folder.h.
// jpeg_turbo.cpp and png_libpng.cpp hold the decoders, or (in a build without the library)
// jpeg_none.cpp and png_none.cpp.
//
// All throw DataError naming the file: for what is damaged, cut off or of a kind that is not known,
// and in a build without the library. `path` is for the message only. The pixels are those of
// Pillow's Image.open(path).convert("RGB"): grey three times, an alpha channel dropped, the upper
// byte of 16-bit samples (of grey ones too, where Pillow clips), gamma, colour profile and EXIF
// orientation not applied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

using FileBytes = std::span<const uint8_t>;

/// What the header says; nothing is decoded.
ImageSpec jpeg_spec(FileBytes file, const std::filesystem::path& path);
ImageSpec png_spec(FileBytes file, const std::filesystem::path& path);

/// Decodes it at 1/denominator of its size (1, 2, 4 or 8; sides rounded up), which takes as much
/// less time; → what `pixels` then holds. A warning of the decoder counts as damage.
ImageSpec decode_jpeg(FileBytes file, const std::filesystem::path& path, int denominator,
                      std::vector<uint8_t>& pixels);
ImageSpec decode_png(FileBytes file, const std::filesystem::path& path,
                     std::vector<uint8_t>& pixels);

/// Three planes of `count` bytes from pixels of 3 or 4 bytes, of which the fourth is dropped.
void planes_of(const uint8_t* pixels, int64_t count, int bytes_per_pixel, uint8_t* planes);

}  // namespace lathe::data
