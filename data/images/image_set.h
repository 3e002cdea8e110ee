// ImageSet: images and labels in memory, as the readers (cifar, idx) return them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::data {

/// Images of `channels` planes of height x width bytes each, one after another, with one label
/// each.
struct ImageSet {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [count, channels, height, width]
  std::vector<uint8_t> labels;  // [count]

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_bytes() const { return channels * height * width; }
  const uint8_t* image(int64_t i) const { return pixels.data() + i * image_bytes(); }
};

/// The images with a border of zeros; the old image is in the middle (an odd extra row or column is
/// at the bottom or right).
/// throws: ValueError if an image is larger than height x width.
LATHE_API ImageSet pad_images(const ImageSet& images, int64_t height, int64_t width);

/// Appends `more` to `images`.
/// throws: ValueError if their image sizes differ.
LATHE_API void append_images(ImageSet& images, const ImageSet& more);

}  // namespace lathe::data
