// Pixels as JPEG and PNG files in memory. Internal to data/. The encoders are in jpeg_turbo.cpp and
// png_libpng.cpp, or in jpeg_none.cpp and png_none.cpp for builds without the library.
//
// All functions throw DataError naming the file if the library fails or is not in this build.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lathe::data {

/// Dense rows of height*width*channels bytes; 3 channels (R G B) or 1 (grey).
struct Pixels {
  const uint8_t* bytes;
  int height, width, channels;
};

std::string encode_jpeg(const Pixels& pixels, const std::filesystem::path& path, int quality);
std::string encode_png(const Pixels& pixels, const std::filesystem::path& path);

}  // namespace lathe::data
