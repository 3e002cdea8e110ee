// The weights of bilinear resizing along one axis, as tables for the CPU; see resize.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/data/transforms/resize_weights.h"

namespace lathe::data {

/// The weights along one axis. Result pixel x is the sum over t < count[x] of
/// weights[x * stride + t] times source pixel first[x] + t.
/// A pair of weights a, b may also have a short form s: what b + (a's pixel - b's) * s / 2^15
/// rounds to is the same for all bytes, and a machine multiplies more of them at once.
struct ResizeAxis {
  int32_t in = 0, out = 0, stride = 0;
  std::vector<int32_t> first, count, weights;
  std::vector<int16_t> short_weights;  // 0: has none; empty until find_short_weights()

  void set(int32_t in_pixels, int32_t out_pixels);
  void find_short_weights();
};

/// x * weight / 2^15, halves up.
inline int16_t short_product(int16_t x, int16_t weight) {
  return static_cast<int16_t>((((int32_t{x} * int32_t{weight}) >> 14) + 1) >> 1);
}

/// The axes that were used last, found by their size: crops of a small image come again and again.
class ResizeAxisCache {
 public:
  const ResizeAxis& get(int64_t in, int64_t out) {
    ResizeAxis& axis = axes_[static_cast<size_t>(in) % axes_.size()];
    if (axis.in != in || axis.out != out) {
      axis.set(static_cast<int32_t>(in), static_cast<int32_t>(out));
    } else if (axis.short_weights.empty()) {
      axis.find_short_weights();  // which takes as long as some images: not for a size seen once
    }
    return axis;
  }

 private:
  std::array<ResizeAxis, 64> axes_;
};

}  // namespace lathe::data
