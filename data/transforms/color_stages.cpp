// The stages color_jitter and grayscale; contracts in transforms.h, the bytes in color.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "lathe/core/dispatch.h"
#include "lathe/data/transforms/color.h"
#include "lathe/data/transforms/color_batch.h"
#include "lathe/data/transforms/stage_parts.h"
#include "lathe/ops/creation.h"

namespace lathe::data {
namespace {

/// Draws the changes of an image's colours, then makes them in place on a copy.
class ColorStage : public ImageStage {
 public:
  explicit ColorStage(const char* name) : name_(name) {}

  ImageSpec output(const ImageSpec& in) const final {
    check_bytes(name_, in);
    LATHE_CHECK(ShapeError, in.channels == 1 || in.channels == 3, name_, ": an image of ",
                in.channels, " channels; 1 or 3 are possible");
    return in;
  }

  void run(const ImageView& in, Random random, bool, uint8_t* out) const final {
    uint8_t* to = out;
    for (int64_t c = 0; c < in.channels; ++c)
      for (int64_t y = 0; y < in.height; ++y, to += in.width)
        std::memcpy(to, in.row(c, y), static_cast<size_t>(in.width));
    change_colors({out, in.channels, in.height * in.width}, steps(random));
  }

  Tensor run_batch(const Tensor& images, const std::vector<Random>& randoms) const final {
    const Tensor in = images.contiguous();
    const Tensor out = empty_like(in);
    std::vector<ColorSteps> all;
    for (Random random : randoms) all.push_back(steps(random));
    if (in.numel() > 0) LATHE_DISPATCH(in.device(), change_colors(out, in, all));
    return out;
  }

 protected:
  virtual ColorSteps steps(Random& random) const = 0;

 private:
  const char* name_;
};

class ColorJitter final : public ColorStage {
 public:
  explicit ColorJitter(const ColorJitterOptions& options)
      : ColorStage("color_jitter"), options_(options) {}

 protected:
  ColorSteps steps(Random& random) const override {
    std::array<size_t, kMostColorSteps> order = {0, 1, 2, 3};
    for (size_t k = 3; k > 0; --k) std::swap(order[k], order[random.below(k + 1)]);
    const double most[] = {options_.brightness, options_.contrast, options_.saturation,
                           options_.hue};
    double drawn[kMostColorSteps];
    for (size_t k = 0; k < 3; ++k)
      drawn[k] = draw({std::max(0.0, 1 - most[k]), 1 + most[k]}, random);
    drawn[3] = draw({-options_.hue, options_.hue}, random);
    constexpr ColorStep kSteps[] = {ColorStep::kBrightness, ColorStep::kContrast,
                                    ColorStep::kSaturation, ColorStep::kHue};
    ColorSteps steps;
    for (size_t k = 0; k < kMostColorSteps; ++k) {
      const size_t at = order[k];
      if (most[at] > 0) steps.step[k] = kSteps[at];
      steps.amount[k] = drawn[at];
    }
    return steps;
  }

 private:
  ColorJitterOptions options_;
};

class Grayscale final : public ColorStage {
 public:
  explicit Grayscale(double p) : ColorStage("grayscale"), p_(p) {}

 protected:
  ColorSteps steps(Random& random) const override {
    if (static_cast<double>(random.uniform()) >= p_) return {};
    return {{ColorStep::kSaturation}, {0}};
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
