// The stages random_erasing and cutout. Contract: transforms.h.
#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/data/transforms/pixel_plan.h"
#include "lathe/data/transforms/stage_parts.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {
namespace {

class Erasing : public PixelStage {
 public:
  Erasing(const char* name, std::vector<double> value) : name_(name), value_(std::move(value)) {
    LATHE_CHECK(ValueError,
                !value_.empty() && static_cast<int64_t>(value_.size()) <= kMaxImageChannels, name_,
                ": ", value_.size(), " values; 1 to ", kMaxImageChannels, " are possible");
    for (const double v : value_)
      LATHE_CHECK(ValueError, std::isfinite(v), name_, ": values must be finite, got ", v);
  }

  ImageSpec output(const ImageSpec& in) const override {
    LATHE_CHECK(ShapeError,
                in.channels <= kMaxImageChannels &&
                    (value_.size() == 1 || static_cast<int64_t>(value_.size()) == in.channels),
                name_, ": an image of ", in.channels, " channels, but ", value_.size(), " values");
    for (const double v : value_)
      LATHE_CHECK(ValueError, in.dtype != kU8 || (v >= 0 && v <= 255 && v == std::floor(v)), name_,
                  ": values for a u8 image must be integers from 0 to 255, got ", v);
    return in;
  }

  void plan(PixelPlan& plan, Random random) const override {
    LATHE_CHECK(ValueError, plan.erased_count < kMaxErased, name_, ": more than ", kMaxErased,
                " erasing stages one after another");
    PixelPlan::Erased box = this->box(plan.height, plan.width, random);
    for (int64_t c = 0; c < plan.channels; ++c)
      box.value[c] = value_[value_.size() == 1 ? 0 : static_cast<size_t>(c)];
    plan.erased[plan.erased_count++] = box;
  }

 protected:
  /// Does not set the rectangle's values.
  virtual PixelPlan::Erased box(int64_t height, int64_t width, Random& random) const = 0;

 private:
  const char* name_;
  std::vector<double> value_;
};

class RandomErasing final : public Erasing {
 public:
  explicit RandomErasing(const RandomErasingOptions& options)
      : Erasing("random_erasing", options.value), options_(options) {}

 protected:
  PixelPlan::Erased box(int64_t height, int64_t width, Random& random) const override {
    constexpr int kTries = 10;
    if (static_cast<double>(random.uniform()) >= options_.p) return {};
    const auto area = static_cast<double>(height * width);
    const Range log_ratio = {std::log(options_.ratio.min), std::log(options_.ratio.max)};
    for (int k = 0; k < kTries; ++k) {
      const double erased = area * draw(options_.scale, random);
      const double ratio = std::exp(draw(log_ratio, random));
      const int64_t h = std::llrint(std::sqrt(erased * ratio));
      const int64_t w = std::llrint(std::sqrt(erased / ratio));
      if (h >= height || w >= width) continue;
      const auto top = static_cast<int64_t>(random.below(static_cast<uint64_t>(height - h + 1)));
      const auto left = static_cast<int64_t>(random.below(static_cast<uint64_t>(width - w + 1)));
      return {top, left, top + h, left + w, {}};
    }
    return {};
  }

 private:
  RandomErasingOptions options_;
};

class Cutout final : public Erasing {
 public:
  Cutout(int64_t length, std::vector<double> value)
      : Erasing("cutout", std::move(value)), length_(length) {}

 protected:
  PixelPlan::Erased box(int64_t height, int64_t width, Random& random) const override {
    if (height == 0 || width == 0) return {};
    const int64_t top = first(height, random), left = first(width, random);
    return {std::max<int64_t>(top, 0),
            std::max<int64_t>(left, 0),
            std::min(top + length_, height),
            std::min(left + length_, width),
            {}};
  }

 private:
  int64_t first(int64_t side, Random& random) const {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(side))) - length_ / 2;
  }

  int64_t length_;
};

}  // namespace

Transform random_erasing(const RandomErasingOptions& options) {
  check_probability("random_erasing", options.p);
  check_range("random_erasing", "scale", options.scale);
  check_range("random_erasing", "ratio", options.ratio);
  return pixel_stage<RandomErasing>(options);
}

Transform cutout(int64_t length, std::vector<double> value) {
  LATHE_CHECK(ValueError, length >= 1 && length <= 2 * 65536,
              "cutout: length must be 1 to 131072, got ", length);
  return pixel_stage<Cutout>(length, std::move(value));
}

}  // namespace lathe::data
