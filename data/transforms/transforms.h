// Transforms of images: pure functions of (image, key), composed once and applied to one sample at
// a time.
//
// An image arrives as bytes [C,H,W]. Stages that only move or rescale pixels (crop, flip,
// normalise) do not touch the pixels one stage after another. Each changes a small plan
// (pixel_plan.h), and one pass at the end reads the source and writes the result straight into the
// batch. Stages that make new pixels (resize, colours; image_stage.h) stand between such passes.
//
// Results are those of torchvision on PIL images: the same bytes for the same crop, size or factor.
// The random numbers differ, since they are functions of (seed, epoch, index).
// Stages: pixel_stages.cpp, resize_stages.cpp, color_stages.cpp, erasing_stages.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/data/random.h"

namespace lathe::data {

inline constexpr int64_t kMaxImageChannels = 16;

/// The kind of an image. u8: bytes as stored; f32: after to_float or normalize.
struct ImageSpec {
  int64_t channels = 0, height = 0, width = 0;
  DType dtype = kU8;

  int64_t pixels() const { return channels * height * width; }
  bool operator==(const ImageSpec&) const = default;
};

class PixelStage;  // a step that changes a plan: pixel_plan.h
class ImageStage;  // a step that makes new pixels: image_stage.h

/// A sequence of stages; an empty one leaves the bytes as they are. Cheap to copy. Several threads
/// may use it at once; each keeps memory for the largest image that it has seen between two stages.
class LATHE_API Transform {
 public:
  /// Exactly one of the two is set.
  struct Stage {
    std::shared_ptr<const PixelStage> pixel;
    std::shared_ptr<const ImageStage> image;
  };

  Transform() = default;
  explicit Transform(std::shared_ptr<const PixelStage> stage);
  explicit Transform(std::shared_ptr<const ImageStage> stage);

  /// The kind of the result for an image of this kind.
  /// throws: ShapeError, ValueError, DTypeError if the stages do not fit it.
  ImageSpec output(const ImageSpec& in) const;

  /// Transforms one image of bytes. `out` has room for output(in).
  void apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const;

  /// The part of the rows and columns of such an image, 0 to 1, that the transform needs: 0.5 if it
  /// makes the image half as large or smaller. A decoder need not produce more than that. 1 unless
  /// the first stage resizes.
  double detail(const ImageSpec& in, Key key) const;

  /// Whether there is no stage.
  bool empty() const { return stages_.empty(); }

  /// This transform, then `next`.
  /// throws: ValueError if both have more than 127 stages.
  Transform then(const Transform& next) const;

  std::span<const Stage> stages() const { return stages_; }

 private:
  std::vector<Stage> stages_;
};

/// The transforms one after another, in the order of the arguments.
template <class... More>
Transform compose(const Transform& first, const More&... more) {
  Transform all = first;
  ((all = all.then(more)), ...);
  return all;
}

/// Adds a border of zeros, `pad` wide, on all four sides, then takes a size x size window at a
/// random place (each equally likely). Must come before to_float and normalize: the border is
/// black, as in torchvision's usual order.
/// throws: ValueError if size < 1 or pad < 0; on use ShapeError if the padded image is smaller than
/// the window, DTypeError if the image is f32 already.
LATHE_API Transform pad_crop(int64_t size, int64_t pad);

/// The height x width window in the middle. If the difference is odd, the extra pixel is on the
/// side that Python's round() gives. A smaller image gets a black border. Must come before to_float
/// and normalize, as pad_crop.
/// throws: ValueError if a side is below 1; on use DTypeError if the image is f32 already.
LATHE_API Transform center_crop(int64_t height, int64_t width);
LATHE_API Transform center_crop(int64_t size);

/// Exchanges left and right with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform hflip(double p = 0.5);

/// Exchanges top and bottom with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform vflip(double p = 0.5);

enum class Interpolation {
  kNearest,   // the pixel under the result pixel's centre
  kBilinear,  // weights fall linearly around it, over a wider area if the image shrinks (antialias)
};

/// The image with height x width pixels, to the bit as Pillow's Image.resize.
/// throws: ValueError unless the sides are 1 to 65536; on use DTypeError if the image is f32
/// already, ShapeError if it has a side of 0 or above 65536.
LATHE_API Transform resize(int64_t height, int64_t width,
                           Interpolation interpolation = Interpolation::kBilinear);

/// The same with the shorter side `size` long and the longer in proportion, rounded down.
LATHE_API Transform resize(int64_t size, Interpolation interpolation = Interpolation::kBilinear);

struct Range {
  double min, max;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1.0};         // of the crop's area, as a part of the image's
  Range ratio = {3.0 / 4, 4.0 / 3};  // of the crop's width to its height
  Interpolation interpolation = Interpolation::kBilinear;
};

/// A random part of the image, resized to height x width as by resize.
/// torchvision's rule for the part: up to 10 times, an area is drawn uniformly from `scale`, and a
/// ratio from `ratio` with a uniform logarithm. The first crop with these (sides rounded) that fits
/// into the image is taken, at a random place; the row is drawn before the column. If none fits:
/// the largest crop in the middle whose ratio is within `ratio` and nearest to the image's.
/// throws: ValueError unless the sides are 1 to 65536 and 0 < min <= max, finite, in both ranges;
/// on use as resize.
LATHE_API Transform random_resized_crop(int64_t height, int64_t width,
                                        const RandomResizedCropOptions& options = {});
LATHE_API Transform random_resized_crop(int64_t size, const RandomResizedCropOptions& options = {});

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};         // of the erased area, as a part of the image's
  Range ratio = {0.3, 3.3};           // of its height to its width
  std::vector<double> value = {0.0};  // one for all channels, or one per channel
};

/// Erases a random rectangle with probability p. torchvision's rule: up to 10 times, an area and a
/// ratio are drawn as for random_resized_crop, until the rectangle is smaller than the image both
/// ways; then its place is drawn. Values are of the image's kind at this stage: 0 to 255 before
/// to_float and normalize, numbers like theirs after them.
/// throws: ValueError for an invalid p, range or value; on use ValueError if the values for a byte
/// image are not whole numbers 0 to 255, or if more than 2 erasing stages stand between two stages
/// that resize or change colours; ShapeError if the image has another number of channels.
/// ref: Zhong et al. (arXiv:1708.04896).
LATHE_API Transform random_erasing(const RandomErasingOptions& options = {});

/// Erases a square of side `length`. Its centre is any pixel of the image, each equally likely;
/// parts beyond the image are cut off. Values as for random_erasing.
/// throws: ValueError if length < 1; on use as random_erasing.
/// ref: DeVries, Taylor (arXiv:1708.04552).
LATHE_API Transform cutout(int64_t length, std::vector<double> value = {0.0});

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;  // factors from [max(0, 1 - b), 1 + b]
  double hue = 0;  // turns from [-h, h] of the circle; at most 0.5
};

/// Changes brightness, contrast, saturation and hue by uniformly drawn factors, in a random order.
/// As torchvision's ColorJitter on PIL images: the same bytes for the same factors and order. What
/// is 0 is left out. Grey images of one channel have no saturation and no hue.
/// throws: ValueError unless the numbers are finite and not negative and hue is at most 0.5; on use
/// ShapeError unless the image has 1 or 3 channels, DTypeError if it is f32 already.
LATHE_API Transform color_jitter(const ColorJitterOptions& options);

/// With probability p sets all three channels to the luma (0.299 R + 0.587 G + 0.114 B, rounded as
/// in Pillow). An image of one channel is unchanged.
/// throws: as color_jitter.
LATHE_API Transform grayscale(double p = 1.0);

/// x / 255 as f32. f32 images are unchanged.
LATHE_API Transform to_float();

/// (x / 255 - mean) / std per channel as f32; for an f32 image (x - mean) / std.
/// It is computed as x * (1 / (255 std)) - mean / std with both numbers rounded from double, so it
/// differs by at most 2^-22 (1 + |mean|) / std from the formula.
/// throws: ValueError if the lists are empty, longer than kMaxImageChannels or differ in length, or
/// if a number is not finite or a std not positive; on use ShapeError if the image has another
/// number of channels.
LATHE_API Transform normalize(std::vector<double> mean, std::vector<double> std);

}  // namespace lathe::data
