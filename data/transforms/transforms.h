// Transforms of images: pure functions of (image, key), composed once and applied to one sample at
// a time.
//
// An image is given as bytes [C,H,W]. Stages that only move or rescale pixels (crop, flip,
// normalise) do not read the pixels. Each such stage changes a small plan (pixel_plan.h), and one
// pass at the end reads the source and writes the result straight into the batch. Stages that make
// new pixels (resize, colours; image_stage.h) run between such passes.
//
// Results are those of torchvision on PIL images: the same bytes for the same crop, size or factor.
// The random numbers differ from torchvision's, because they depend only on (seed, epoch, index).
// Stages: pixel_stages.cpp, reflect_stage.cpp, resize_stages.cpp, color_stages.cpp,
// erasing_stages.cpp.
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

/// Channels, size and dtype of an image. The dtype is u8 (bytes, as stored) or, after to_float or
/// normalize, f32.
struct ImageSpec {
  int64_t channels = 0, height = 0, width = 0;
  DType dtype = kU8;

  int64_t pixels() const { return channels * height * width; }
  bool operator==(const ImageSpec&) const = default;
};

class PixelStage;  // a step that changes a plan: pixel_plan.h
class ImageStage;  // a step that makes new pixels: image_stage.h

/// A sequence of stages. An empty sequence leaves the bytes as they are. A Transform is cheap to
/// copy. Several threads may use it at the same time. Each thread keeps the memory in which it
/// holds an image between two stages: as much as its largest image needed.
class LATHE_API Transform {
 public:
  /// One stage. Exactly one of the two pointers is set.
  struct Stage {
    std::shared_ptr<const PixelStage> pixel;
    std::shared_ptr<const ImageStage> image;
  };

  Transform() = default;
  explicit Transform(std::shared_ptr<const PixelStage> stage);  // ValueError for null
  explicit Transform(std::shared_ptr<const ImageStage> stage);  // likewise

  /// Channels, size and dtype of the image that the transform makes from an image of spec `in`.
  /// throws: ShapeError, ValueError, DTypeError if the stages do not fit `in`.
  ImageSpec output(const ImageSpec& in) const;

  /// Transforms one image of bytes. `out` has room for output(in).
  void apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const;

  /// The smallest scale, from 0 to 1, at which a decoder may decode an image of spec `in`. For
  /// instance 0.5 if the first stage halves the image's sides, and 1 if the first stage does not
  /// resize.
  double detail(const ImageSpec& in, Key key) const;

  /// True if there are no stages.
  bool empty() const { return stages_.empty(); }

  /// This transform, then `next`.
  /// throws: ValueError if both together have more than 127 stages.
  Transform then(const Transform& next) const;

  std::span<const Stage> stages() const { return stages_; }

 private:
  std::vector<Stage> stages_;
};

/// A transform that runs its arguments one after another.
template <class... More>
Transform compose(const Transform& first, const More&... more) {
  Transform all = first;
  ((all = all.then(more)), ...);
  return all;
}

/// Adds a border of zeros, `pad` wide, on all four sides, then takes a size x size window at a
/// random place (each equally likely). Must come before to_float and normalize, so that the border
/// is black.
/// throws: ValueError if size < 1 or pad < 0; on use ShapeError if the padded image is smaller than
/// the window, DTypeError if the image is f32 already.
LATHE_API Transform pad_crop(int64_t size, int64_t pad);

/// Adds a border, `pad` wide, on all four sides: the image mirrored at its outermost pixels, which
/// are not repeated. reflect_pad(2) and then pad_crop(32, 0) move an image of 32x32 by up to 2
/// pixels.
/// throws: ValueError if pad < 0; on use ShapeError if a side has `pad` pixels or fewer, DTypeError
/// if the image is f32 already.
LATHE_API Transform reflect_pad(int64_t pad);

/// Takes the height x width window in the middle. If the number of pixels to cut off is odd,
/// Python's round() decides which side loses one more. A smaller image gets a black border. Must
/// come before to_float and normalize.
/// throws: ValueError if a side is below 1; on use DTypeError if the image is f32 already.
LATHE_API Transform center_crop(int64_t height, int64_t width);
LATHE_API Transform center_crop(int64_t size);

/// Exchanges left and right with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform hflip(double p = 0.5);

/// Exchanges left and right of an image in every second epoch: in the even or in the odd epochs,
/// each with probability 1/2. So two epochs in a row always show the image and its mirror image.
/// ref: Jordan 2024 (arXiv:2404.00498), section 3.6.
LATHE_API Transform alternating_hflip();

/// Exchanges top and bottom with probability p.
/// throws: ValueError unless p is in [0, 1].
LATHE_API Transform vflip(double p = 0.5);

enum class Interpolation {
  kNearest,   // the pixel under the result pixel's centre
  kBilinear,  // pixels around that centre, with weights that fall linearly; more of them if the
              // image shrinks (antialias)
};

/// Resizes the image to height x width pixels, with the same bytes as Pillow's Image.resize.
/// throws: ValueError unless the sides are 1 to 65536; on use DTypeError if the image is f32
/// already, ShapeError if it has a side of 0 or above 65536.
LATHE_API Transform resize(int64_t height, int64_t width,
                           Interpolation interpolation = Interpolation::kBilinear);

/// Resizes the image so that its shorter side is `size` long, and keeps the proportions. The longer
/// side is rounded down. Otherwise like resize() with two sides.
LATHE_API Transform resize(int64_t size, Interpolation interpolation = Interpolation::kBilinear);

struct Range {
  double min, max;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1.0};         // of the crop's area, as a part of the image's
  Range ratio = {3.0 / 4, 4.0 / 3};  // of the crop's width to its height
  Interpolation interpolation = Interpolation::kBilinear;
};

/// Takes a random crop of the image and resizes it to height x width, as resize does. The crop is
/// chosen by torchvision's rule:
///   - Up to 10 times, an area is drawn uniformly from `scale`, and a ratio from `ratio` with a
///     uniform logarithm. The first crop that fits into the image, with rounded sides, is taken at
///     a random place. The row is drawn before the column.
///   - If no crop fits, the largest crop in the middle is taken whose ratio is in `ratio` and
///     nearest to the image's ratio.
/// throws: ValueError unless the sides are 1 to 65536 and 0 < min <= max, finite, in both ranges;
/// on use what resize throws.
LATHE_API Transform random_resized_crop(int64_t height, int64_t width,
                                        const RandomResizedCropOptions& options = {});
LATHE_API Transform random_resized_crop(int64_t size, const RandomResizedCropOptions& options = {});

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};         // of the erased area, as a part of the image's
  Range ratio = {0.3, 3.3};           // of its height to its width
  std::vector<double> value = {0.0};  // one for all channels, or one per channel
};

/// Erases a random rectangle with probability p, by torchvision's rule. An area and a ratio are
/// drawn as for random_resized_crop, up to 10 times, until both sides of the rectangle are smaller
/// than the image's. Then the rectangle's place is drawn. `value` is in the units of the image at
/// this stage: 0 to 255 before to_float and normalize, afterwards in the units of their results.
/// throws: ValueError for an invalid p, range or value. On use:
///   - ValueError if values for a byte image are not whole numbers from 0 to 255
///   - ValueError for more than 2 erasing stages between two stages that resize or change colours
///   - ShapeError if the image has another number of channels than `value`
/// ref: Zhong et al. (arXiv:1708.04896).
LATHE_API Transform random_erasing(const RandomErasingOptions& options = {});

/// Erases a square of side `length`. Its centre is a pixel of the image, drawn uniformly; parts
/// outside the image are cut off. `value` is as for random_erasing.
/// throws: ValueError if length < 1; on use what random_erasing throws.
/// ref: DeVries, Taylor (arXiv:1708.04552).
LATHE_API Transform cutout(int64_t length, std::vector<double> value = {0.0});

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0;  // factors from [max(0, 1 - b), 1 + b]
  double hue = 0;  // turns from [-h, h] of the circle; at most 0.5
};

/// Changes brightness, contrast, saturation and hue by uniformly drawn factors, in a random order.
/// With equal factors and order, the result has the bytes of torchvision's ColorJitter on PIL
/// images. Options that are 0 change nothing. Images of one channel have no saturation and no hue.
/// throws: ValueError unless the numbers are finite and not negative and hue is at most 0.5; on use
/// ShapeError unless the image has 1 or 3 channels, DTypeError if it is f32 already.
LATHE_API Transform color_jitter(const ColorJitterOptions& options);

/// With probability p sets all three channels to the luma (0.299 R + 0.587 G + 0.114 B, rounded as
/// in Pillow). An image of one channel is unchanged.
/// throws: what color_jitter throws.
LATHE_API Transform grayscale(double p = 1.0);

/// x / 255 as f32. f32 images are unchanged.
LATHE_API Transform to_float();

/// (x / 255 - mean) / std for each channel, as f32; for an f32 image (x - mean) / std. The result
/// differs from this formula by at most 2^-22 (1 + |mean|) / std, because it is computed as x * (1
/// / (255 std)) - mean / std with f32 constants.
/// throws: ValueError if the lists are empty, differ in length or have more than kMaxImageChannels
/// numbers, if a number is not finite, or if a std is not positive; on use ShapeError if the image
/// has another number of channels.
LATHE_API Transform normalize(std::vector<double> mean, std::vector<double> std);

}  // namespace lathe::data
