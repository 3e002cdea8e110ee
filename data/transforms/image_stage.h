// ImageStage: a step of a transform that makes new pixels from a whole image. A plan (pixel_plan.h)
// only says where pixels come from. Internal to data/; the public functions are in transforms.h.
#pragma once

#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/resize.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// One step from an image of bytes to an image of bytes. Stateless: everything random comes from
/// `random`.
class ImageStage {
 public:
  virtual ~ImageStage() = default;

  /// The image after this stage.
  /// throws: ShapeError, DTypeError, ValueError if it does not fit.
  virtual ImageSpec output(const ImageSpec& in) const = 0;

  /// Writes the image after this stage, row-major. With `flipped`, left and right are exchanged;
  /// only stages that takes_flip() get that. `out` must not overlap `in`.
  virtual void run(const ImageView& in, Random random, bool flipped, uint8_t* out) const = 0;

  /// True if a flip after this stage costs no pass of its own, because the stage can make it.
  virtual bool takes_flip() const { return false; }

  /// Like run(), for a batch u8 [N,C,H,W] of any strides, on its device. Sample n uses randoms[n].
  /// The result is row-major.
  virtual Tensor run_batch(const Tensor& images, const std::vector<Random>& randoms) const = 0;

  /// The part of the rows and columns of such an image that the stage needs. If it is 0.5 or less,
  /// half of the rows and columns are still at least as many as the result has, so a decoder may
  /// deliver only those.
  virtual double detail(const ImageSpec& /*in*/, Random /*random*/) const { return 1; }
};

/// Refuses floats, which only pixel stages take: "resize: the image is f32 already; …".
void check_bytes(const char* stage, const ImageSpec& in);

}  // namespace lathe::data
