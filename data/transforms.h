// Transforms of images: each a pure function of (image, key), composed once and applied to one
// sample at a time.
//
// An image arrives as bytes [C,H,W]. Stages that only move or rescale pixels (crop, flip,
// normalise) do not touch them one after another: each changes a small plan (data/pixel_plan.h),
// and one pass at the end reads the source and writes the result straight into the batch.
#pragma once

#include <cstdint>
#include <memory>
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

class PixelStage;  // one step; data/pixel_plan.h
struct PixelPlan;  // what all steps come to; likewise

/// A sequence of stages; empty: the bytes as they are. A cheap value; safe to use from several
/// threads.
class LATHE_API Transform {
 public:
  Transform() = default;
  explicit Transform(std::shared_ptr<const PixelStage> stage);

  /// What becomes of an image of this kind.   throws: ShapeError, ValueError, DTypeError if the
  /// stages do not fit it.
  ImageSpec output(const ImageSpec& in) const;

  /// Transforms one image of bytes. `out` has room for output(in).
  void apply(const uint8_t* image, const ImageSpec& in, Key key, void* out) const;

  /// What `apply` will do with it.
  PixelPlan plan(const uint8_t* image, const ImageSpec& in, Key key) const;

  /// This, then `next`.
  Transform then(const Transform& next) const;

 private:
  std::vector<std::shared_ptr<const PixelStage>> stages_;
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

/// Left and right exchanged with probability p.   throws: ValueError unless p is in [0, 1].
LATHE_API Transform hflip(double p = 0.5);

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
