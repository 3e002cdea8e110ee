// How a transform's stages say what they do to an image without doing it. Internal to data/; users
// see transforms.h.
#pragma once

#include <cstdint>
#include "lathe/data/transforms/pixel_math.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// What the stages so far make of the source image of bytes.
///   result(c, r, k) = value_c( source(c, top + r', left + k') )
/// where r' is r, or height - 1 - r if flipped_rows, and k' is k, or width - 1 - k if flipped;
/// the source counts as black (0) outside the valid rectangle, and value_c(v) is v, or, if
/// the result is f32, v * scale[c] + bias[c] with both rounded to float.
/// Rectangles of the result are then erased: they get values of the result's kind.
struct PixelPlan {
  const uint8_t* source;
  int64_t channels, source_height, source_width;
  int64_t top, left, height, width;  // the window; may reach beyond the source
  int64_t valid_top, valid_left, valid_bottom,
      valid_right;            // half open, in the source's coordinates
  bool flipped = false;       // left and right
  bool flipped_rows = false;  // top and bottom
  bool is_float = false;
  double scale[kMaxImageChannels], bias[kMaxImageChannels];  // set if is_float

  /// Empty where the stage erased nothing of this sample: the number of rectangles and their values
  /// are the same for every sample.
  struct Erased {
    int64_t top = 0, left = 0, bottom = 0, right = 0;  // half open
    double value[kMaxImageChannels] = {};
  };
  Erased erased[kMaxErased];  // in turn
  int erased_count = 0;
};

/// The parts of the plan that differ between samples.
SampleWindow window_of(const PixelPlan& plan);

/// The plan that leaves an image as it is.
PixelPlan identity_plan(const uint8_t* image, const ImageSpec& spec);

/// The window becomes height x width, its corner at (row, column) of what it shows now; what it
/// then shows beyond that is black.
void move_window(PixelPlan& plan, int64_t row, int64_t column, int64_t height, int64_t width);

/// Left and right, or top and bottom, of what it shows are exchanged.
void flip_columns(PixelPlan& plan);
void flip_rows(PixelPlan& plan);

/// Is the result a window of the source, the bytes as they are?
bool is_window(const PixelPlan& plan);

/// Does the window show the whole source and nothing else?
bool shows_all(const PixelPlan& plan);

/// Writes the result of the plan: one pass over the output, no memory of its own.
void render(const PixelPlan& plan, void* out);

/// One stage. Stateless: everything random comes from `random`.
class PixelStage {
 public:
  virtual ~PixelStage() = default;
  /// The image after this stage.
  /// throws: ShapeError, ValueError if it does not fit.
  virtual ImageSpec output(const ImageSpec& in) const = 0;
  /// What is random may change the window and the erased rectangles, not the size or any value.
  virtual void plan(PixelPlan& plan, Random random) const = 0;
};

}  // namespace lathe::data
