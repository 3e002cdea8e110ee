// How a transform's stages say what they do to an image without doing it. Internal to data/; users
// see transforms.h.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/data/pixel_math.h"
#include "lathe/data/transforms.h"

namespace lathe::data {

/// What the stages so far make of the source image of bytes.
///   result(c, r, k) = value_c( source(c, top + r, left + (flipped ? width - 1 - k : k)) )
/// where the source counts as black (0) outside the valid rectangle, and value_c(v) is v, or, if
/// the result is f32, v * scale[c] + bias[c] with both rounded to float.
struct PixelPlan {
  const uint8_t* source;
  int64_t channels, source_height, source_width;
  int64_t top, left, height, width;  // the window; may reach beyond the source
  int64_t valid_top, valid_left, valid_bottom,
      valid_right;  // half open, in the source's coordinates
  bool flipped = false;
  bool is_float = false;
  double scale[kMaxImageChannels], bias[kMaxImageChannels];  // set if is_float
};

/// The parts of the plan that differ between samples.
SampleWindow window_of(const PixelPlan& plan);

/// The plan that leaves an image as it is.
PixelPlan identity_plan(const uint8_t* image, const ImageSpec& spec);

/// Writes the result of the plan: one pass over the output, no memory of its own.
void render(const PixelPlan& plan, void* out);

/// One stage. Stateless: everything random comes from `random`.
class PixelStage {
 public:
  virtual ~PixelStage() = default;
  /// The image after this stage.   throws: ShapeError, ValueError if it does not fit.
  virtual ImageSpec output(const ImageSpec& in) const = 0;
  /// What is random may change the window alone, not the size, scale or bias.
  virtual void plan(PixelPlan& plan, Random random) const = 0;
};

}  // namespace lathe::data
