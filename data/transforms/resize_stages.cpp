// The stages resize and random_resized_crop. Contract: transforms.h.
#include <algorithm>
#include <cmath>

#include "lathe/core/dispatch.h"
#include "lathe/data/transforms/resize_batch.h"
#include "lathe/data/transforms/stage_parts.h"

namespace lathe::data {
namespace {

void check_sides(const char* stage, int64_t height, int64_t width) {
  const auto fits = [](int64_t side) { return side >= 1 && side <= kMaxImageSide; };
  LATHE_CHECK(ValueError, fits(height) && fits(width), stage, ": sides must be 1 to ",
              kMaxImageSide, ", got ", height, "x", width);
}

void check_image(const char* stage, const ImageSpec& in) {
  check_bytes(stage, in);
  const auto fits = [](int64_t side) { return side >= 1 && side <= kMaxImageSide; };
  LATHE_CHECK(ShapeError, fits(in.height) && fits(in.width), stage, ": an image of ", in.height,
              "x", in.width, "; sides must be 1 to ", kMaxImageSide);
}

/// The part of the rows or of the columns, whichever is larger, that the new size keeps; at most 1.
double part_of(int64_t from_height, int64_t from_width, int64_t to_height, int64_t to_width) {
  return std::min(1.0, std::max(static_cast<double>(to_height) / static_cast<double>(from_height),
                                static_cast<double>(to_width) / static_cast<double>(from_width)));
}

/// A stage that resizes a part of the image.
class ResizeStage : public ImageStage {
 public:
  explicit ResizeStage(Interpolation interpolation) : interpolation_(interpolation) {}

  bool takes_flip() const final { return true; }

  void run(const ImageView& in, Random random, bool flipped, uint8_t* out) const final {
    const ResizeBox box = box_of(in.height, in.width, random);
    const ImageSpec to = output(in.spec());
    resize_image(in.window(box.top, box.left, box.height, box.width),
                 {to.height, to.width, interpolation_, flipped}, out);
  }

  Tensor run_batch(const Tensor& images, const std::vector<Random>& randoms) const final {
    const ImageSpec in{images.dim(1), images.dim(2), images.dim(3), kU8}, to = output(in);
    std::vector<ResizeBox> boxes;
    for (Random random : randoms) boxes.push_back(box_of(in.height, in.width, random));
    const Tensor out = empty({images.dim(0), to.channels, to.height, to.width},
                             {.dtype = kU8, .device = images.device()});
    LATHE_DISPATCH(images.device(), resize_batch(out, images, boxes, interpolation_));
    return out;
  }

  double detail(const ImageSpec& in, Random random) const final {
    const ResizeBox box = box_of(in.height, in.width, random);
    const ImageSpec to = output(in);
    return part_of(box.height, box.width, to.height, to.width);
  }

 protected:
  virtual ResizeBox box_of(int64_t height, int64_t width, Random& random) const = 0;

 private:
  Interpolation interpolation_;
};

class Resize final : public ResizeStage {
 public:
  /// A width of 0: the shorter side becomes `height`.
  Resize(int64_t height, int64_t width, Interpolation interpolation)
      : ResizeStage(interpolation), height_(height), width_(width) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_image("resize", in);
    if (width_ != 0) return {in.channels, height_, width_, kU8};
    const int64_t size = height_;
    const ImageSpec out = in.height <= in.width
                              ? ImageSpec{in.channels, size, size * in.width / in.height, kU8}
                              : ImageSpec{in.channels, size * in.height / in.width, size, kU8};
    LATHE_CHECK(ShapeError, out.height <= kMaxImageSide && out.width <= kMaxImageSide,
                "resize: an image of ", in.height, "x", in.width, " would become one of ",
                out.height, "x", out.width, "; sides must be 1 to ", kMaxImageSide);
    LATHE_CHECK(ShapeError, out.height * out.width <= kMaxImagePixels, "resize: an image of ",
                in.height, "x", in.width, " would become one of ", out.height, "x", out.width,
                ", of more than ", kMaxImagePixels, " pixels");
    return out;
  }

 protected:
  ResizeBox box_of(int64_t height, int64_t width, Random&) const override {
    return {0, 0, height, width};
  }

 private:
  int64_t height_, width_;
};

class RandomResizedCrop final : public ResizeStage {
 public:
  RandomResizedCrop(int64_t height, int64_t width, const RandomResizedCropOptions& options)
      : ResizeStage(options.interpolation), height_(height), width_(width), options_(options) {}

  ImageSpec output(const ImageSpec& in) const override {
    check_image("random_resized_crop", in);
    return {in.channels, height_, width_, kU8};
  }

 protected:
  ResizeBox box_of(int64_t height, int64_t width, Random& random) const override {
    constexpr int kTries = 10;
    const Range log_ratio = {std::log(options_.ratio.min), std::log(options_.ratio.max)};
    const auto area = static_cast<double>(height * width);
    for (int k = 0; k < kTries; ++k) {
      const double part = draw(options_.scale, random) * area;
      const double drawn_ratio = std::exp(draw(log_ratio, random));
      const int64_t w = std::llrint(std::sqrt(part * drawn_ratio));
      const int64_t h = std::llrint(std::sqrt(part / drawn_ratio));
      if (w < 1 || h < 1 || w > width || h > height) continue;
      const auto top = random.below(static_cast<uint64_t>(height - h + 1));
      const auto left = random.below(static_cast<uint64_t>(width - w + 1));
      return {static_cast<int64_t>(top), static_cast<int64_t>(left), h, w};
    }
    return middle_box(height, width);
  }

 private:
  ResizeBox middle_box(int64_t height, int64_t width) const {
    const double has = static_cast<double>(width) / static_cast<double>(height);
    int64_t h = height, w = width;
    if (has < options_.ratio.min)
      h = std::llrint(static_cast<double>(width) / options_.ratio.min);
    else if (has > options_.ratio.max)
      w = std::llrint(static_cast<double>(height) * options_.ratio.max);
    h = std::clamp<int64_t>(h, 1, height);
    w = std::clamp<int64_t>(w, 1, width);
    return {(height - h) / 2, (width - w) / 2, h, w};
  }

  int64_t height_, width_;
  RandomResizedCropOptions options_;
};

}  // namespace

Transform resize(int64_t height, int64_t width, Interpolation interpolation) {
  check_sides("resize", height, width);
  return image_stage<Resize>(height, width, interpolation);
}

Transform resize(int64_t size, Interpolation interpolation) {
  check_sides("resize", size, size);
  return image_stage<Resize>(size, int64_t{0}, interpolation);
}

Transform random_resized_crop(int64_t height, int64_t width,
                              const RandomResizedCropOptions& options) {
  check_sides("random_resized_crop", height, width);
  check_range("random_resized_crop", "scale", options.scale);
  check_range("random_resized_crop", "ratio", options.ratio);
  return image_stage<RandomResizedCrop>(height, width, options);
}

Transform random_resized_crop(int64_t size, const RandomResizedCropOptions& options) {
  return random_resized_crop(size, size, options);
}

}  // namespace lathe::data
