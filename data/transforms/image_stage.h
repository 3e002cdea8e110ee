// Steps of a transform that make new pixels out of a whole image, where a plan (pixel_plan.h) only
// says where pixels come from. Internal to data/; users see transforms.h.
#pragma once

#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/resize.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// One step, from an image of bytes to an image of bytes. Stateless: everything random comes from
/// `random`.
class ImageStage {
 public:
  virtual ~ImageStage() = default;

  /// The image after this stage.
  /// throws: ShapeError, DTypeError, ValueError if it does not fit.
  virtual ImageSpec output(const ImageSpec& in) const = 0;

  /// Writes that image, row-major; with left and right exchanged if `flipped`, which only a stage
  /// that takes_flip() is asked for. `out` overlaps nothing of `in`.
  virtual void run(const ImageView& in, Random random, bool flipped, uint8_t* out) const = 0;

  /// Does a flip that follows cost this stage nothing?
  virtual bool takes_flip() const { return false; }

  /// The same for a batch u8 [N,C,H,W], any strides, on its device, sample n with randoms[n];
  /// row-major.
  virtual Tensor run_batch(const Tensor& images, const std::vector<Random>& randoms) const = 0;

  /// How finely the stage looks at an image of this kind: with half of the rows and columns, its
  /// result would still not be larger than what it is made from, if detail is 0.5 or less. A
  /// decoder may then deliver half of them.
  virtual double detail(const ImageSpec& /*in*/, Random /*random*/) const { return 1; }
};

/// Refuses floats, which only pixel stages take: "resize: the image is f32 already; …".
void check_bytes(const char* stage, const ImageSpec& in);

}  // namespace lathe::data
