// The arithmetic of resizing bytes along one axis (resize.h), for host and device, equal to the
// last bit on both.
//
// The weights are those of Pillow's Image.resize(BILINEAR): a triangle as wide as max(1, in / out)
// source pixels to either side of the result pixel's centre, cut off at the image's border, divided
// by its sum and rounded to multiples of 2^-22.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

inline constexpr int kWeightBits = 22;
inline constexpr int32_t kWeightOne = int32_t{1} << kWeightBits;
inline constexpr int32_t kWeightHalf = kWeightOne / 2;

/// A sum of bytes times weights, as a byte. The weights of a pixel are not negative and add up to
/// 2^22, give or take 1/2 for each weight, so the result needs no clamp.
LATHE_HD inline uint8_t weighted_byte(int32_t sum) {
  return static_cast<uint8_t>((sum + kWeightHalf) >> kWeightBits);
}

/// Nearest: the source pixels under the centres of the result pixels, one after another. Centres
/// are summed up, as Pillow does.
struct NearestPixels {
  double step, center;
  int32_t in;

  LATHE_HD static NearestPixels of(int32_t in, int32_t out) {
    const double step = static_cast<double>(in) / out;
    return {step, step * 0.5, in};
  }
  LATHE_HD void advance() { center += step; }
  LATHE_HD int32_t pixel() const {
    const auto at = static_cast<int32_t>(center);
    return at < in ? at : in - 1;
  }
};

/// The source pixel of result pixel x.
LATHE_HD inline int32_t nearest_pixel(int32_t in, int32_t out, int32_t x) {
  NearestPixels from = NearestPixels::of(in, out);
  for (int32_t k = 0; k < x; ++k) from.advance();
  return from.pixel();
}

/// The triangle of weights along an axis of `in` pixels that becomes one of `out`.
struct Triangle {
  double scale, support;
  int32_t in;

  LATHE_HD static Triangle of(int32_t in, int32_t out) {
    const double scale = static_cast<double>(in) / out;
    return {scale, scale < 1.0 ? 1.0 : scale, in};
  }

  LATHE_HD double center(int32_t x) const { return (x + 0.5) * scale; }

  /// The source pixels under the triangle of result pixel x are first(x) … last(x) - 1.
  LATHE_HD int32_t first(int32_t x) const {
    const auto at = static_cast<int32_t>(center(x) - support + 0.5);
    return at < 0 ? 0 : at;
  }
  LATHE_HD int32_t last(int32_t x) const {
    const auto at = static_cast<int32_t>(center(x) + support + 0.5);
    return at > in ? in : at;
  }

  /// The triangle's height over source pixel k.
  LATHE_HD double height(int32_t x, int32_t k) const {
    double distance = (k - center(x) + 0.5) * (1.0 / support);
    if (distance < 0.0) distance = -distance;
    return distance < 1.0 ? 1.0 - distance : 0.0;
  }

  /// The sum of the heights, from left to right.
  LATHE_HD double total(int32_t x) const {
    double sum = 0.0;
    for (int32_t k = first(x); k < last(x); ++k) sum += height(x, k);
    return sum;
  }

  /// The weight of source pixel k.
  LATHE_HD int32_t weight(int32_t x, int32_t k, double total) const {
    return static_cast<int32_t>(0.5 + height(x, k) / total * kWeightOne);
  }
};

}  // namespace lathe::data
