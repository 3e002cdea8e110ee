// What becomes of one pixel: the arithmetic of data/pixel_plan.h for host and device.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

/// A byte as a float result.
LATHE_HD inline float pixel_value(uint8_t byte, float scale, float bias) {
  return static_cast<float>(byte) * scale + bias;
}

/// Where the pixels of one sample come from: the parts of a PixelPlan that differ between samples.
/// 16 bits each, because many of them travel in a kernel's parameters.
struct SampleWindow {
  int16_t top, left;
  int16_t valid_top, valid_left, valid_bottom, valid_right;  // half open; black outside
  int16_t flipped, flipped_rows;

  struct Source {
    int32_t row, col;
    bool valid;
  };
  /// Of result pixel (r, k) in a result of height x width.
  LATHE_HD Source source(int32_t r, int32_t k, int32_t height, int32_t width) const {
    const int32_t row = top + (flipped_rows != 0 ? height - 1 - r : r);
    const int32_t col = left + (flipped != 0 ? width - 1 - k : k);
    return {row, col,
            row >= valid_top && row < valid_bottom && col >= valid_left && col < valid_right};
  }
};

}  // namespace lathe::data
