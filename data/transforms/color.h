// Changes of an image's colours in place, byte for byte those of Pillow's ImageEnhance and
// torchvision's adjust_hue. Internal to data/; the public function is color_jitter in transforms.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::data {

/// Planes of `count` bytes, one after another: 3 (R, G, B) or 1 (grey).
struct ColorImage {
  uint8_t* pixels;
  int64_t channels, count;

  uint8_t* plane(int64_t c) const { return pixels + c * count; }
};

/// pixel * factor.
void adjust_brightness(const ColorImage& image, double factor);
/// Moves pixels away from the image's mean luma (factor > 1) or towards it.
void adjust_contrast(const ColorImage& image, double factor);
/// Moves pixels away from their own luma (factor > 1) or towards it.
void adjust_saturation(const ColorImage& image, double factor);
/// Turns hues by `turn` of the colour circle, -0.5 to 0.5, in steps of 1/255.
void adjust_hue(const ColorImage& image, double turn);
/// Sets all channels to the pixel's luma.
void make_grey(const ColorImage& image);

inline constexpr size_t kMostColorSteps = 4;

/// The changes of one image's colours, in order. Each of the functions above comes at most once.
enum class ColorStep : uint8_t { kNone, kBrightness, kContrast, kSaturation, kHue };
struct ColorSteps {
  ColorStep step[kMostColorSteps] = {};
  double amount[kMostColorSteps] = {};  // the factor, or the turn
};

void change_colors(const ColorImage& image, const ColorSteps& steps);

}  // namespace lathe::data
