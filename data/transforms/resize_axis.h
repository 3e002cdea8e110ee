// Tables of the weights of bilinear resizing along one axis, for the CPU; see resize.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/data/transforms/resize_weights.h"

namespace lathe::data {

/// The weights along one axis. Result pixel x is the sum over t < count[x] of
///   weights[x * stride + t] * (source pixel first[x] + t).
/// A pair of weights a, b may also have a short form s: b's pixel + (a's pixel - b's pixel) * s /
/// 2^15, rounded, is the same for all bytes. A machine multiplies more such numbers at once.
struct ResizeAxis {
  int32_t in = 0, out = 0, stride = 0;
  std::vector<int32_t> first, count, weights;
  std::vector<int16_t> short_weights;  // 0: no short form; empty until find_short_weights()

  void set(int32_t in_pixels, int32_t out_pixels);
  void find_short_weights();
};

/// x * weight / 2^15, halves rounded up.
inline int16_t short_product(int16_t x, int16_t weight) {
  return static_cast<int16_t>((((int32_t{x} * int32_t{weight}) >> 14) + 1) >> 1);
}

/// The axes used last, found by their size: crops of a small image have the same sizes again.
class ResizeAxisCache {
 public:
  const ResizeAxis& get(int64_t in, int64_t out) {
    ResizeAxis& axis = axes_[static_cast<size_t>(in) % axes_.size()];
    if (axis.in != in || axis.out != out) {
      axis.set(static_cast<int32_t>(in), static_cast<int32_t>(out));
    } else if (axis.short_weights.empty()) {
      axis.find_short_weights();  // takes as long as several images, so not for a size seen once
    }
    return axis;
  }

 private:
  std::array<ResizeAxis, 64> axes_;
};

}  // namespace lathe::data
