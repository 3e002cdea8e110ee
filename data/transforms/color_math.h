// The colour arithmetic of one pixel, as Pillow has it, for host and device. It rounds exactly as
// written, so that both give the same bytes.
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::data {

struct Rgb {
  uint8_t r, g, b;
};
struct Hsv {
  uint8_t h, s, v;
};

/// from + factor * (to - from), cut to 0 … 255 and truncated: Pillow's blend.
LATHE_HD inline uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  const float positive = value < 0.0f ? 0.0f : value;
  return static_cast<uint8_t>(positive > 255.0f ? 255.0f : positive);
}

/// 0.299 R + 0.587 G + 0.114 B, rounded as in Pillow; for a grey pixel this is the pixel itself.
LATHE_HD inline int luma(int r, int g, int b) {
  return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

/// The reference point of contrast: the mean luma of `count` > 0 pixels.
LATHE_HD inline int mean_luma(int64_t sum, int64_t count) {
  return static_cast<int>(static_cast<double>(sum) / static_cast<double>(count) + 0.5);
}

/// A turn of the colour circle, as steps of H.
LATHE_HD inline uint8_t hue_steps(double turn) {
  return static_cast<uint8_t>(static_cast<int>(turn * 255));
}

LATHE_HD inline uint8_t cut_to_byte(int x) {
  return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x);
}

/// Pillow's conversions, which follow Python's colorsys.
LATHE_HD inline Hsv to_hsv(const Rgb& x) {
  const int r = x.r, g = x.g, b = x.b;
  const int greater = r > g ? r : g, smaller = r < g ? r : g;
  const int largest = greater > b ? greater : b, least = smaller < b ? smaller : b;
  if (largest == least) return {0, 0, static_cast<uint8_t>(largest)};
  const auto range = static_cast<float>(largest - least);
  const float s = range / static_cast<float>(largest);
  const float rc = static_cast<float>(largest - r) / range;
  const float gc = static_cast<float>(largest - g) / range;
  const float bc = static_cast<float>(largest - b) / range;
  float h = bc - gc;
  if (r != largest)
    h = static_cast<float>(g == largest ? 2.0 + static_cast<double>(rc) - static_cast<double>(bc)
                                        : 4.0 + static_cast<double>(gc) - static_cast<double>(rc));
  const double turn = static_cast<double>(h) / 6.0 + 1.0;  // 5/6 to 11/6
  h = static_cast<float>(turn >= 1.0 ? turn - 1.0 : turn);
  return {cut_to_byte(static_cast<int>(static_cast<double>(h) * 255.0)),
          cut_to_byte(static_cast<int>(static_cast<double>(s) * 255.0)),
          static_cast<uint8_t>(largest)};
}

/// v · (1 - away), rounded.
LATHE_HD inline uint8_t without_part(uint8_t v, double away) {
  return cut_to_byte(static_cast<int>(std::round(static_cast<double>(v) * (1.0 - away))));
}

LATHE_HD inline Rgb to_rgb(const Hsv& x) {
  if (x.s == 0) return {x.v, x.v, x.v};
  const double sixth = x.h * 6.0 / 255.0;
  const int i = static_cast<int>(sixth);
  const auto f = static_cast<float>(sixth - i), s = static_cast<float>(x.s / 255.0);
  const uint8_t v = x.v, p = without_part(v, static_cast<double>(s));
  const uint8_t q = without_part(v, static_cast<double>(s * f));
  const uint8_t t = without_part(v, static_cast<double>(s) * (1.0 - static_cast<double>(f)));
  switch (i % 6) {
    case 0: return {v, t, p};
    case 1: return {q, v, p};
    case 2: return {p, v, t};
    case 3: return {p, q, v};
    case 4: return {t, p, v};
    default: return {v, p, q};
  }
}

/// One pixel with its hue turned by `steps`.
LATHE_HD inline Rgb turned(const Rgb& x, uint8_t steps) {
  Hsv hsv = to_hsv(x);
  hsv.h = static_cast<uint8_t>(hsv.h + steps);
  return to_rgb(hsv);
}

}  // namespace lathe::data
