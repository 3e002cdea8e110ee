// Colour changes of one image on the CPU, plane by plane. The arithmetic is in color_math.h.
#include "lathe/data/transforms/color.h"

#include "lathe/core/config.h"
#include "lathe/data/transforms/color_math.h"

namespace lathe::data {
namespace {

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

}  // namespace

void adjust_brightness(const ColorImage& image, double factor) {
  blend_from_constant(image.pixels, image.channels * image.count, 0, static_cast<float>(factor));
}

void adjust_contrast(const ColorImage& image, double factor) {
  if (image.count == 0) return;
  const uint8_t* first = image.plane(0);
  // The luma of a grey pixel is the pixel itself, because the three weights add up to 1.
  const bool grey = image.channels == 1;
  const int64_t sum =
      sum_of_luma(first, grey ? first : image.plane(1), grey ? first : image.plane(2), image.count);
  blend_from_constant(image.pixels, image.channels * image.count, mean_luma(sum, image.count),
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
  const uint8_t steps = hue_steps(turn);
  for (int64_t k = 0; k < image.count; ++k) {
    uint8_t &r = image.plane(0)[k], &g = image.plane(1)[k], &b = image.plane(2)[k];
    const Rgb pixel = turned({r, g, b}, steps);
    r = pixel.r;
    g = pixel.g;
    b = pixel.b;
  }
}

void change_colors(const ColorImage& image, const ColorSteps& steps) {
  for (size_t k = 0; k < kMostColorSteps; ++k) {
    switch (steps.step[k]) {
      case ColorStep::kNone: break;
      case ColorStep::kBrightness: adjust_brightness(image, steps.amount[k]); break;
      case ColorStep::kContrast: adjust_contrast(image, steps.amount[k]); break;
      case ColorStep::kSaturation: adjust_saturation(image, steps.amount[k]); break;
      case ColorStep::kHue: adjust_hue(image, steps.amount[k]); break;
    }
  }
}

}  // namespace lathe::data
