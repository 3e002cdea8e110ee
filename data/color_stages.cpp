// The stages that change colours; see transforms.h.
#include <array>
#include <cstring>

#include "lathe/data/color.h"
#include "lathe/data/stage_parts.h"

namespace lathe::data {
namespace {

/// Works in place on a copy.
class ColorStage : public ImageStage {
 public:
  explicit ColorStage(const char* name) : name_(name) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_bytes(name_, in);
    LATHE_CHECK(ShapeError, in.channels == 1 || in.channels == 3, name_, ": an image of ",
                in.channels, " channels; 1 or 3 are possible");
    return in;
  }

  void run(const ImageView& in, Random random, bool, uint8_t* out) const override {
    uint8_t* to = out;
    for (int64_t c = 0; c < in.channels; ++c)
      for (int64_t y = 0; y < in.height; ++y, to += in.width)
        std::memcpy(to, in.row(c, y), static_cast<size_t>(in.width));
    change({out, in.channels, in.height * in.width}, random);
  }

 protected:
  virtual void change(const ColorImage& image, Random& random) const = 0;

 private:
  const char* name_;
};

class ColorJitter final : public ColorStage {
 public:
  explicit ColorJitter(const ColorJitterOptions& options)
      : ColorStage("color_jitter"), options_(options) {}

 protected:
  void change(const ColorImage& image, Random& random) const override {
    std::array<int, 4> order = {0, 1, 2, 3};
    for (size_t k = 3; k > 0; --k) std::swap(order[k], order[random.below(k + 1)]);
    const double brightness = factor(options_.brightness, random);
    const double contrast = factor(options_.contrast, random);
    const double saturation = factor(options_.saturation, random);
    const double hue = draw({-options_.hue, options_.hue}, random);
    for (const int step : order) {
      if (step == 0 && options_.brightness > 0) adjust_brightness(image, brightness);
      if (step == 1 && options_.contrast > 0) adjust_contrast(image, contrast);
      if (step == 2 && options_.saturation > 0) adjust_saturation(image, saturation);
      if (step == 3 && options_.hue > 0) adjust_hue(image, hue);
    }
  }

 private:
  static double factor(double most, Random& random) {
    return draw({std::max(0.0, 1 - most), 1 + most}, random);
  }

  ColorJitterOptions options_;
};

class Grayscale final : public ColorStage {
 public:
  explicit Grayscale(double p) : ColorStage("grayscale"), p_(p) {}

 protected:
  void change(const ColorImage& image, Random& random) const override {
    if (static_cast<double>(random.uniform()) < p_) make_grey(image);
  }

 private:
  double p_;
};

}  // namespace

Transform color_jitter(const ColorJitterOptions& options) {
  for (const double x : {options.brightness, options.contrast, options.saturation, options.hue})
    LATHE_CHECK(ValueError, x >= 0 && std::isfinite(x),
                "color_jitter: numbers must not be negative, got ", x);
  LATHE_CHECK(ValueError, options.hue <= 0.5, "color_jitter: hue must be at most 0.5, got ",
              options.hue);
  return image_stage<ColorJitter>(options);
}

Transform grayscale(double p) {
  check_probability("grayscale", p);
  return image_stage<Grayscale>(p);
}

}  // namespace lathe::data
