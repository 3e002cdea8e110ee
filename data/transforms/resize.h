// Resizing of byte images on the CPU. Internal to data/; the public functions are in transforms.h.
#pragma once

#include <cstdint>

#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// A byte image, or a window of one. Pixels of a row are adjacent; rows and planes may have gaps.
struct ImageView {
  const uint8_t* pixels;
  int64_t channels, height, width;
  int64_t row_bytes, plane_bytes;  // from a row to the next, from a channel to the next

  static ImageView of(const uint8_t* pixels, const ImageSpec& spec) {
    return {pixels, spec.channels, spec.height, spec.width, spec.width, spec.height * spec.width};
  }
  ImageSpec spec() const { return {channels, height, width, kU8}; }
  const uint8_t* row(int64_t c, int64_t y) const {
    return pixels + c * plane_bytes + y * row_bytes;
  }
  /// The window from (top, left) on.
  ImageView window(int64_t top, int64_t left, int64_t rows, int64_t columns) const {
    return {row(0, top) + left, channels, rows, columns, row_bytes, plane_bytes};
  }
};

/// The largest side: up to it, sums of bytes times weights fit into 32 bits.
inline constexpr int64_t kMaxImageSide = 1 << 16;
/// The most pixels that an image gets by growing with its ratio kept: as many as a file may have.
inline constexpr int64_t kMaxImagePixels = 100'000'000;

struct ResizeTo {
  int64_t height, width;  // 1 to kMaxImageSide, as the image's sides
  Interpolation interpolation = Interpolation::kBilinear;
  bool flipped = false;  // left and right exchanged
};

/// `in` as [channels, to.height, to.width], row-major, to the bit as Pillow's Image.resize.
/// Bilinear: with the weights of resize_weights.h, first along the rows, rounded to bytes, then
/// along the columns. Nearest: the pixel under the result pixel's centre. Keeps the weights of
/// recent sizes, per thread.
void resize_image(const ImageView& in, const ResizeTo& to, uint8_t* out);

}  // namespace lathe::data
