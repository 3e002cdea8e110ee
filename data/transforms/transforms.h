// Transforms of images: each a pure function of (image, key), composed once and applied to one
// sample at a time.
//
// An image arrives as bytes [C,H,W]. Stages that only move or rescale pixels (crop, flip,
// normalise) do not touch them one after another: each changes a small plan (data/transforms/pixel_plan.h),
// and one pass at the end reads the source and writes the result straight into the batch. Stages
// that make new pixels (resize; data/transforms/image_stage.h) stand between such passes.
//
// Results are those of torchvision on PIL images: the same bytes for the same crop, size or factor.
// The random numbers differ, since they are functions of (seed, epoch, index).
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

/// What an image is. u8: bytes as stored; f32: after to_float or normalize.
struct ImageSpec {
  int64_t channels = 0, height = 0, width = 0;
  DType dtype = kU8;

  int64_t pixels() const { return channels * height * width; }
  bool operator==(const ImageSpec&) const = default;
};

class PixelStage;  // a step that changes a plan; data/transforms/pixel_plan.h
class ImageStage;  // a step that makes new pixels; data/transforms/image_stage.h

/// A sequence of stages; empty: the bytes as they are. A cheap value; safe to use from several
/// threads, each of which keeps room for the largest image between two stages that it has seen.
class LATHE_API Transform {
 public:
  /// One of the two.
  struct Stage {
    std::shared_ptr<const PixelStage> pixel;
    std::shared_ptr<const ImageStage> image;
  };

  Transform() = default;
  explicit Transform(std::shared_ptr<const PixelStage> stage);
  explicit Transform(std::shared_ptr<const ImageStage> stage);

  /// What becomes of an image of this kind.
  /// throws: ShapeError, ValueError, DTypeError if the stages do not fit it.
  ImageSpec output(const ImageSpec& in) const;

  /// Transforms one image of bytes. `out` has room for output(in).
  void apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const;

  /// The part of the rows and of the columns of an image of this kind, 0 to 1, that the transform
  /// needs to see: 0.5 if it makes the image half as large, or smaller. So a decoder need not make
  /// what would be thrown away. 1 unless the first stage resizes.
  double detail(const ImageSpec& in, Key key) const;

  /// No stage: the bytes as they are.
  bool empty() const { return stages_.empty(); }

  /// This, then `next`.
  /// throws: ValueError if both have more than 127 stages.
  Transform then(const Transform& next) const;

  std::span<const Stage> stages() const { return stages_; }

 private:
  std::vector<Stage> stages_;
};

/// One after another, from left to right.
template <class... More>
Transform compose(const Transform& first, const More&... more) {
  Transform all = first;
  ((all = all.then(more)), ...);
  return all;
}

/// Zeros on all four sides, `pad` wide, then a size x size window at a random place (each equally
/// likely). Comes before to_float and normalize: the border is black, as in torchvision's usual
/// order.
/// throws: ValueError if size < 1 or pad < 0; on use ShapeError if the padded image is smaller
/// than the window, DTypeError if the image is f32 already.
LATHE_API Transform pad_crop(int64_t size, int64_t pad);

/// The height x width window in the middle, an odd pixel to the left and above or not as Python's
/// round(); a smaller image gets a black border. Before to_float and normalize, as pad_crop.
/// throws: ValueError if a side is below 1; on use DTypeError if the image is f32 already.
LATHE_API Transform center_crop(int64_t height, int64_t width);
LATHE_API Transform center_crop(int64_t size);

/// Left and right exchanged with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform hflip(double p = 0.5);

/// Top and bottom exchanged with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform vflip(double p = 0.5);

enum class Interpolation {
  kNearest,   // the pixel under the result pixel's centre
  kBilinear,  // weights fall linearly around it; antialiased: the smaller the result, the wider
};

/// The image height x width large; Pillow's Image.resize, to the bit.
/// throws: ValueError unless the sides are 1 to 65536; on use DTypeError if the image is f32
/// already, ShapeError if it has a side of 0 or above 65536.
LATHE_API Transform resize(int64_t height, int64_t width,
                           Interpolation interpolation = Interpolation::kBilinear);

/// The same with the shorter side `size` long and the other in proportion, rounded down.
LATHE_API Transform resize(int64_t size, Interpolation interpolation = Interpolation::kBilinear);

struct Range {
  double min, max;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1.0};         // of the crop's area, as a part of the image's
  Range ratio = {3.0 / 4, 4.0 / 3};  // of the crop's width to its height
  Interpolation interpolation = Interpolation::kBilinear;
};

/// A random part of the image, made height x width large as resize does.
/// The part, torchvision's rule: up to 10 times an area is drawn uniformly from `scale` and a ratio
/// with a uniform logarithm from `ratio`; the first crop with these, its sides rounded, that fits
/// into the image is taken, at a place that is drawn, rows first. If none fits: the largest in
/// the middle whose ratio is the nearest to the image's that `ratio` allows.
/// throws: ValueError unless the sides are 1 to 65536 and 0 < min <= max, finite, in both ranges;
/// on use as resize.
LATHE_API Transform random_resized_crop(int64_t height, int64_t width,
                                        const RandomResizedCropOptions& options = {});
LATHE_API Transform random_resized_crop(int64_t size, const RandomResizedCropOptions& options = {});

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};         // of the erased area, as a part of the image's
  Range ratio = {0.3, 3.3};           // of its height to its width
  std::vector<double> value = {0.0};  // one for all channels, or one for each
};

/// With probability p a random rectangle is erased; torchvision's rule: up to 10 times an area and
/// a ratio are drawn as for random_resized_crop, until the rectangle is smaller than the image both
/// ways, then its place. Values are of the image's kind where the stage stands: 0 to 255 before
/// to_float and normalize, numbers like theirs after them.
/// throws: ValueError for p, ranges or values that cannot be; on use ValueError for bytes that are
/// no whole numbers 0 to 255 or more than 2 erasing stages between two that resize or change
/// colours, ShapeError if the image has another number of channels.
/// ref: Zhong et al. (arXiv:1708.04896).
LATHE_API Transform random_erasing(const RandomErasingOptions& options = {});

/// A square of side `length` is erased, its centre any pixel of the image, each equally likely;
/// what reaches beyond the image is cut off. Values as for random_erasing.
/// throws: ValueError if length < 1; on use as random_erasing.
/// ref: DeVries, Taylor (arXiv:1708.04552).
LATHE_API Transform cutout(int64_t length, std::vector<double> value = {0.0});

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;  // factors from [max(0, 1 - b), 1 + b]
  double hue = 0;                                       // from [-h, h], of the circle; at most 0.5
};

/// Brightness, contrast, saturation and hue changed by factors that are drawn uniformly, in an
/// order that is drawn; torchvision's ColorJitter on PIL images: the same bytes for the same
/// factors and order. What has 0 is left out. Grey images of one channel have no saturation and no
/// hue.
/// throws: ValueError unless the numbers are finite, not negative, and hue at most 0.5; on use
/// ShapeError unless the image has 1 or 3 channels, DTypeError if it is f32 already.
LATHE_API Transform color_jitter(const ColorJitterOptions& options);

/// With probability p all three channels become the luma (0.299 R + 0.587 G + 0.114 B, as Pillow
/// rounds it). An image of one channel stays.
/// throws: as color_jitter.
LATHE_API Transform grayscale(double p = 1.0);

/// x / 255 as f32; f32 images stay as they are.
LATHE_API Transform to_float();

/// (x / 255 - mean) / std per channel as f32, computed as x * (1 / (255 std)) - mean / std with
/// both numbers rounded from double: at most 2^-22 (1 + |mean|) / std from the formula.
/// Of an f32 image: (x - mean) / std likewise.
/// throws: ValueError if the lists are empty, longer than kMaxImageChannels or differ in length,
/// if a number is not finite or a std not positive; ShapeError (on use) if the image has another
/// number of channels.
LATHE_API Transform normalize(std::vector<double> mean, std::vector<double> std);

}  // namespace lathe::data
