// The arithmetic of one pixel of a plan (pixel_plan.h), for host and device.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

inline constexpr int kMaxErased = 2;  // most erasing stages in one plan

/// A byte as a number of a float result.
LATHE_HD inline float pixel_value(uint8_t byte, float scale, float bias) {
  return static_cast<float>(byte) * scale + bias;
}

/// Where the pixels of one sample come from: the parts of a PixelPlan that differ between samples.
/// 16 bits each, because many of them fit into a kernel's parameters.
struct SampleWindow {
  int16_t top, left;
  int16_t valid_top, valid_left, valid_bottom, valid_right;  // half open; black outside
  int16_t flipped, flipped_rows;
  struct Erased {
    int16_t top, left, bottom, right;  // of the result; half open
  } erased[kMaxErased];

  /// The erased rectangle that result pixel (r, k) lies in, the last one if in several; -1: none.
  LATHE_HD int erased_at(int32_t r, int32_t k) const {
    int found = -1;
    for (int e = 0; e < kMaxErased; ++e) {
      const Erased& box = erased[e];
      if (r >= box.top && r < box.bottom && k >= box.left && k < box.right) found = e;
    }
    return found;
  }

  struct Source {
    int32_t row, col;
    bool valid;
  };
  /// The source of result pixel (r, k) in a result of height x width.
  LATHE_HD Source source(int32_t r, int32_t k, int32_t height, int32_t width) const {
    const int32_t row = top + (flipped_rows != 0 ? height - 1 - r : r);
    const int32_t col = left + (flipped != 0 ? width - 1 - k : k);
    return {row, col,
            row >= valid_top && row < valid_bottom && col >= valid_left && col < valid_right};
  }
};

}  // namespace lathe::data
