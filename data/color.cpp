#include "lathe/data/color.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/config.h"

namespace lathe::data {
namespace {

/// from + factor * (to - from), cut to 0 … 255 and truncated: Pillow's blend.
inline uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::min(std::max(value, 0.0f), 255.0f));
}

inline int luma(int r, int g, int b) { return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16; }

LATHE_CLONES void blend_from_constant(uint8_t* x, int64_t n, int from, float factor) {
  for (int64_t k = 0; k < n; ++k) x[k] = blend(from, x[k], factor);
}

LATHE_CLONES void blend_from_luma(uint8_t* __restrict__ r, uint8_t* __restrict__ g,
                                  uint8_t* __restrict__ b, int64_t n, float factor) {
  for (int64_t k = 0; k < n; ++k) {
    const int grey = luma(r[k], g[k], b[k]);
    r[k] = blend(grey, r[k], factor);
    g[k] = blend(grey, g[k], factor);
    b[k] = blend(grey, b[k], factor);
  }
}

LATHE_CLONES int64_t sum_of_luma(const uint8_t* r, const uint8_t* g, const uint8_t* b, int64_t n) {
  int64_t sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += luma(r[k], g[k], b[k]);
  return sum;
}

struct Hsv {
  uint8_t h, s, v;
};

uint8_t cut(int x) { return static_cast<uint8_t>(std::clamp(x, 0, 255)); }

/// Pillow's conversions, which follow Python's colorsys.
Hsv to_hsv(int r, int g, int b) {
  const int largest = std::max(r, std::max(g, b)), least = std::min(r, std::min(g, b));
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
  h = static_cast<float>(std::fmod(static_cast<double>(h) / 6.0 + 1.0, 1.0));
  return {cut(static_cast<int>(static_cast<double>(h) * 255.0)),
          cut(static_cast<int>(static_cast<double>(s) * 255.0)), static_cast<uint8_t>(largest)};
}

void to_rgb(const Hsv& in, uint8_t& r, uint8_t& g, uint8_t& b) {
  if (in.s == 0) {
    r = g = b = in.v;
    return;
  }
  const double sixth = in.h * 6.0 / 255.0;
  const int i = static_cast<int>(sixth);
  const auto f = static_cast<float>(sixth - i), s = static_cast<float>(in.s / 255.0);
  const double v = in.v;
  const auto part = [v](double away) {
    return cut(static_cast<int>(std::round(v * (1.0 - away))));
  };
  const uint8_t p = part(static_cast<double>(s));
  const uint8_t q = part(static_cast<double>(s * f));
  const uint8_t t = part(static_cast<double>(s) * (1.0 - static_cast<double>(f)));
  const uint8_t table[6][3] = {{in.v, t, p}, {q, in.v, p}, {p, in.v, t},
                               {p, q, in.v}, {t, p, in.v}, {in.v, p, q}};
  r = table[i % 6][0];
  g = table[i % 6][1];
  b = table[i % 6][2];
}

}  // namespace

void adjust_brightness(const ColorImage& image, double factor) {
  blend_from_constant(image.pixels, image.channels * image.count, 0, static_cast<float>(factor));
}

void adjust_contrast(const ColorImage& image, double factor) {
  if (image.count == 0) return;
  const uint8_t* first = image.plane(0);
  const bool grey = image.channels == 1;  // whose luma is itself: the three weights sum up to 1
  const int64_t sum =
      sum_of_luma(first, grey ? first : image.plane(1), grey ? first : image.plane(2), image.count);
  const double mean = static_cast<double>(sum) / static_cast<double>(image.count);
  blend_from_constant(image.pixels, image.channels * image.count, static_cast<int>(mean + 0.5),
                      static_cast<float>(factor));
}

void adjust_saturation(const ColorImage& image, double factor) {
  if (image.channels == 1) return;
  blend_from_luma(image.plane(0), image.plane(1), image.plane(2), image.count,
                  static_cast<float>(factor));
}

void make_grey(const ColorImage& image) { adjust_saturation(image, 0.0); }

void adjust_hue(const ColorImage& image, double turn) {
  if (image.channels == 1) return;
  const auto steps = static_cast<uint8_t>(static_cast<int>(turn * 255));
  for (int64_t k = 0; k < image.count; ++k) {
    uint8_t &r = image.plane(0)[k], &g = image.plane(1)[k], &b = image.plane(2)[k];
    Hsv hsv = to_hsv(r, g, b);
    hsv.h = static_cast<uint8_t>(hsv.h + steps);
    to_rgb(hsv, r, g, b);
  }
}

}  // namespace lathe::data
