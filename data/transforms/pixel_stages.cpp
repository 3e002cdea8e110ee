// The stages that only move or scale pixels: crops, flips, to_float, normalize. Contract:
// transforms.h.
#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/data/transforms/stage_parts.h"

namespace lathe::data {
namespace {

class PadCrop final : public PixelStage {
 public:
  PadCrop(int64_t size, int64_t pad) : size_(size), pad_(pad) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_bytes("pad_crop", in);
    LATHE_CHECK(ShapeError, in.height + 2 * pad_ >= size_ && in.width + 2 * pad_ >= size_,
                "pad_crop: an image of ", in.height, "x", in.width, " padded by ", pad_,
                " is smaller than the window of ", size_, "x", size_);
    return {in.channels, size_, size_, in.dtype};
  }

  void plan(PixelPlan& plan, Random random) const override {
    const int64_t dy = offset(plan.height, random);  // the row is drawn before the column
    const int64_t dx = offset(plan.width, random);
    move_window(plan, dy, dx, size_, size_);
  }

 private:
  int64_t offset(int64_t side, Random& random) const {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(side + 2 * pad_ - size_ + 1))) -
           pad_;
  }

  int64_t size_, pad_;
};

/// Python's round(n / 2): a half goes to the even neighbour.
int64_t half_to_even(int64_t n) { return n / 2 + (n % 4 == 3 ? 1 : 0); }

class CenterCrop final : public PixelStage {
 public:
  CenterCrop(int64_t height, int64_t width) : height_(height), width_(width) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_bytes("center_crop", in);
    return {in.channels, height_, width_, in.dtype};
  }

  void plan(PixelPlan& plan, Random) const override {
    move_window(plan, offset(plan.height, height_), offset(plan.width, width_), height_, width_);
  }

 private:
  /// Pads a smaller image first; the odd pixel goes to the end.
  static int64_t offset(int64_t side, int64_t wanted) {
    return side < wanted ? -((wanted - side) / 2) : half_to_even(side - wanted);
  }

  int64_t height_, width_;
};

class Flip final : public PixelStage {
 public:
  Flip(void (*flip)(PixelPlan&), double p) : flip_(flip), p_(p) {}

  ImageSpec output(const ImageSpec& in) const override { return in; }

  void plan(PixelPlan& plan, Random random) const override {
    if (static_cast<double>(random.uniform()) < p_) flip_(plan);
  }

 private:
  void (*flip_)(PixelPlan&);
  double p_;
};

class AlternatingFlip final : public PixelStage {
 public:
  ImageSpec output(const ImageSpec& in) const override { return in; }

  void plan(PixelPlan& plan, Random random) const override {
    const auto first = static_cast<int64_t>(random.in_epoch(0).below(2));
    if ((random.epoch() + first) % 2 == 1) flip_columns(plan);
  }
};

void make_float(PixelPlan& plan) {
  if (plan.is_float) return;
  plan.is_float = true;
  std::fill_n(plan.scale, plan.channels, 1.0 / 255.0);
  std::fill_n(plan.bias, plan.channels, 0.0);
  for (int e = 0; e < plan.erased_count; ++e)
    for (int64_t c = 0; c < plan.channels; ++c) plan.erased[e].value[c] /= 255.0;
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
      for (int e = 0; e < plan.erased_count; ++e) {
        double& value = plan.erased[e].value[c];
        value = (value - mean_[c]) / std_[c];
      }
    }
  }

 private:
  std::vector<double> mean_, std_;
};

}  // namespace

Transform pad_crop(int64_t size, int64_t pad) {
  LATHE_CHECK(ValueError, size >= 1, "pad_crop: size must be positive, got ", size);
  LATHE_CHECK(ValueError, pad >= 0, "pad_crop: pad must not be negative, got ", pad);
  return pixel_stage<PadCrop>(size, pad);
}

Transform hflip(double p) {
  check_probability("hflip", p);
  return pixel_stage<Flip>(flip_columns, p);
}

Transform alternating_hflip() { return pixel_stage<AlternatingFlip>(); }

Transform vflip(double p) {
  check_probability("vflip", p);
  return pixel_stage<Flip>(flip_rows, p);
}

Transform center_crop(int64_t height, int64_t width) {
  LATHE_CHECK(ValueError, height >= 1 && width >= 1, "center_crop: the size must be positive, got ",
              height, "x", width);
  return pixel_stage<CenterCrop>(height, width);
}

Transform center_crop(int64_t size) { return center_crop(size, size); }

Transform to_float() { return pixel_stage<ToFloat>(); }

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
  return pixel_stage<Normalize>(std::move(mean), std::move(std));
}

}  // namespace lathe::data
