// The stages, and Transform, which strings them together.
#include "lathe/data/transforms.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/data/pixel_plan.h"

namespace lathe::data {
namespace {

class PadCrop final : public PixelStage {
 public:
  PadCrop(int64_t size, int64_t pad) : size_(size), pad_(pad) {}

  ImageSpec output(const ImageSpec& in) const override {
    LATHE_CHECK(DTypeError, in.dtype == kU8, "pad_crop: the image is ", in.dtype,
                " already; pad_crop comes before to_float and normalize");
    LATHE_CHECK(ShapeError, in.height + 2 * pad_ >= size_ && in.width + 2 * pad_ >= size_,
                "pad_crop: an image of ", in.height, "x", in.width, " padded by ", pad_,
                " is smaller than the window of ", size_, "x", size_);
    return {in.channels, size_, size_, in.dtype};
  }

  void plan(PixelPlan& plan, Random random) const override {
    const int64_t dy = offset(plan.height, random);  // first the row, then the column
    const int64_t dx = offset(plan.width, random);
    crop(plan, dy, dx);
  }

 private:
  int64_t offset(int64_t side, Random& random) const {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(side + 2 * pad_ - size_ + 1))) -
           pad_;
  }

  /// The window moves by (dy, dx) within what the plan shows so far; beyond that is black.
  void crop(PixelPlan& plan, int64_t dy, int64_t dx) const {
    plan.valid_top = std::max(plan.valid_top, plan.top);
    plan.valid_bottom = std::min(plan.valid_bottom, plan.top + plan.height);
    plan.valid_left = std::max(plan.valid_left, plan.left);
    plan.valid_right = std::min(plan.valid_right, plan.left + plan.width);
    plan.top += dy;
    plan.left += plan.flipped ? plan.width - dx - size_ : dx;
    plan.height = plan.width = size_;
  }

  int64_t size_, pad_;
};

class HFlip final : public PixelStage {
 public:
  explicit HFlip(double p) : p_(p) {}

  ImageSpec output(const ImageSpec& in) const override { return in; }

  void plan(PixelPlan& plan, Random random) const override {
    if (static_cast<double>(random.uniform()) < p_) plan.flipped = !plan.flipped;
  }

 private:
  double p_;
};

void make_float(PixelPlan& plan) {
  if (plan.is_float) return;
  plan.is_float = true;
  std::fill_n(plan.scale, plan.channels, 1.0 / 255.0);
  std::fill_n(plan.bias, plan.channels, 0.0);
}

class ToFloat final : public PixelStage {
 public:
  ImageSpec output(const ImageSpec& in) const override {
    LATHE_CHECK(ShapeError, in.channels <= kMaxImageChannels, "to_float: an image of ", in.channels,
                " channels has more than ", kMaxImageChannels);
    return {in.channels, in.height, in.width, kF32};
  }

  void plan(PixelPlan& plan, Random) const override { make_float(plan); }
};

class Normalize final : public PixelStage {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std)
      : mean_(std::move(mean)), std_(std::move(std)) {}

  ImageSpec output(const ImageSpec& in) const override {
    LATHE_CHECK(ShapeError, in.channels == static_cast<int64_t>(mean_.size()),
                "normalize: an image of ", in.channels, " channels, but ", mean_.size(), " means");
    return {in.channels, in.height, in.width, kF32};
  }

  void plan(PixelPlan& plan, Random) const override {
    make_float(plan);
    for (size_t c = 0; c < mean_.size(); ++c) {
      plan.scale[c] /= std_[c];
      plan.bias[c] = (plan.bias[c] - mean_[c]) / std_[c];
    }
  }

 private:
  std::vector<double> mean_, std_;
};

}  // namespace

Transform::Transform(std::shared_ptr<const PixelStage> stage) : stages_{std::move(stage)} {}

ImageSpec Transform::output(const ImageSpec& in) const {
  ImageSpec spec = in;
  for (const auto& stage : stages_) spec = stage->output(spec);
  return spec;
}

PixelPlan Transform::plan(const uint8_t* image, const ImageSpec& in, Key key) const {
  PixelPlan plan = identity_plan(image, in);
  int stream = kTransformStream;
  for (const auto& stage : stages_) stage->plan(plan, key.random(stream++));
  return plan;
}

void Transform::apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const {
  render(plan(image, in, key), out);
}

Transform Transform::then(const Transform& next) const {
  constexpr size_t kMaxStages = kOrderStream - kTransformStream;
  LATHE_CHECK(ValueError, stages_.size() + next.stages_.size() <= kMaxStages,
              "compose: ", stages_.size() + next.stages_.size(), " stages are more than ",
              kMaxStages);
  Transform both = *this;
  both.stages_.insert(both.stages_.end(), next.stages_.begin(), next.stages_.end());
  return both;
}

Transform pad_crop(int64_t size, int64_t pad) {
  LATHE_CHECK(ValueError, size >= 1, "pad_crop: size must be positive, got ", size);
  LATHE_CHECK(ValueError, pad >= 0, "pad_crop: pad must not be negative, got ", pad);
  return Transform(std::make_shared<PadCrop>(size, pad));
}

Transform hflip(double p) {
  LATHE_CHECK(ValueError, p >= 0 && p <= 1, "hflip: p must be in [0, 1], got ", p);
  return Transform(std::make_shared<HFlip>(p));
}

Transform to_float() { return Transform(std::make_shared<ToFloat>()); }

Transform normalize(std::vector<double> mean, std::vector<double> std) {
  LATHE_CHECK(ValueError, !mean.empty() && mean.size() == std.size(), "normalize: ", mean.size(),
              " means and ", std.size(), " standard deviations");
  LATHE_CHECK(ValueError, static_cast<int64_t>(mean.size()) <= kMaxImageChannels,
              "normalize: ", mean.size(), " channels are more than ", kMaxImageChannels);
  for (size_t c = 0; c < mean.size(); ++c) {
    LATHE_CHECK(ValueError, std::isfinite(mean[c]), "normalize: mean ", c, " is ", mean[c]);
    LATHE_CHECK(ValueError, std::isfinite(std[c]) && std[c] > 0, "normalize: std ", c,
                " must be positive and finite, got ", std[c]);
  }
  return Transform(std::make_shared<Normalize>(std::move(mean), std::move(std)));
}

}  // namespace lathe::data
