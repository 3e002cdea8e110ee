// Colours of an image of bytes changed in place, byte for byte as Pillow's ImageEnhance and
// torchvision's adjust_hue do it. Internal to data/; users see color_jitter in transforms.h.
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
/// Away from the mean luma of the image, or towards it.
void adjust_contrast(const ColorImage& image, double factor);
/// Away from each pixel's luma, or towards it.
void adjust_saturation(const ColorImage& image, double factor);
/// Turned by `turn` of the colour circle, -0.5 to 0.5, in steps of 1/255.
void adjust_hue(const ColorImage& image, double turn);
/// Each pixel's luma in all channels.
void make_grey(const ColorImage& image);

inline constexpr size_t kMostColorSteps = 4;

/// What is done to the colours of one image, in order: the functions above, by name. Each comes at
/// most once.
enum class ColorStep : uint8_t { kNone, kBrightness, kContrast, kSaturation, kHue };
struct ColorSteps {
  ColorStep step[kMostColorSteps] = {};
  double amount[kMostColorSteps] = {};  // the factor, or the turn
};

void change_colors(const ColorImage& image, const ColorSteps& steps);

}  // namespace lathe::data
