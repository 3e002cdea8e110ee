// PixelPlan: how a transform's stages say what they do to an image, without doing it. Internal to
// data/; the public functions are in transforms.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lathe/data/random.h"
#include "lathe/data/transforms/pixel_math.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// What the stages so far make of the source image of bytes:
///   result(c, r, k) = value_c( source(c, top + r', left + k') )
///   r' = flipped_rows ? height - 1 - r : r       k' = flipped ? width - 1 - k : k
///   value_c(v) = is_float ? v * scale[c] + bias[c] : v, with scale and bias rounded to float
/// The source is black (0) outside its valid rectangle. Then rectangles of the result are erased:
/// they get values of the result's kind.
struct PixelPlan {
  const uint8_t* source;
  int64_t channels, source_height, source_width;
  int64_t top, left, height, width;  // the window; may reach beyond the source
  // Half open, in the source's coordinates.
  int64_t valid_top, valid_left, valid_bottom, valid_right;
  bool flipped = false;       // left and right
  bool flipped_rows = false;  // top and bottom
  bool is_float = false;
  double scale[kMaxImageChannels], bias[kMaxImageChannels];  // set if is_float

  /// Empty if the stage erased nothing of this sample. The number of rectangles and their values
  /// are the same for every sample.
  struct Erased {
    int64_t top = 0, left = 0, bottom = 0, right = 0;  // half open
    double value[kMaxImageChannels] = {};
  };
  Erased erased[kMaxErased];  // in order of the stages
  int erased_count = 0;
};

/// The parts of the plan that differ between samples.
SampleWindow window_of(const PixelPlan& plan);

/// The plan that leaves an image as it is.
PixelPlan identity_plan(const uint8_t* image, const ImageSpec& spec);

/// What these stages, which are all pixel stages, do to an image of such a kind. `first` is the
/// number of the first one in its transform, for its random numbers.
PixelPlan plan_of(std::span<const Transform::Stage> stages, size_t first, const ImageSpec& in,
                  Key key);

/// Makes the window height x width, with its corner at (row, column) of what it shows now. What it
/// then shows beyond that is black.
void move_window(PixelPlan& plan, int64_t row, int64_t column, int64_t height, int64_t width);

/// Exchanges left and right, or top and bottom, of what the window shows.
void flip_columns(PixelPlan& plan);
void flip_rows(PixelPlan& plan);

/// True if the plan's result is a window of the source with the bytes unchanged.
bool is_window(const PixelPlan& plan);

/// True if the plan's window shows exactly the whole source.
bool shows_all(const PixelPlan& plan);

/// Writes the result of the plan, in one pass over the output and without memory of its own.
void render(const PixelPlan& plan, void* out);

/// One stage. Stateless: everything random comes from `random`.
class PixelStage {
 public:
  virtual ~PixelStage() = default;
  /// The image after this stage.
  /// throws: ShapeError, ValueError if it does not fit.
  virtual ImageSpec output(const ImageSpec& in) const = 0;
  /// Random draws may change the window and the erased rectangles, but no size and no value.
  virtual void plan(PixelPlan& plan, Random random) const = 0;
};

}  // namespace lathe::data
