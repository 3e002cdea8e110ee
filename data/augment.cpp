// Batch transforms: checks and dispatch; see augment.h. Kernels: augment_cpu.cpp, augment_cuda.cu.
#include "lathe/data/augment.h"

#include <vector>

#include "lathe/core/dispatch.h"
#include "lathe/data/pixel_plan.h"

namespace lathe::data {

Tensor augment(const Tensor& images, const Transform& transform, std::span<const int64_t> indices,
               const AugmentOptions& options) {
  LATHE_CHECK(DTypeError, images.dtype() == kU8, "augment: images must be u8 (images: ", images,
              ")");
  LATHE_CHECK(ShapeError, images.ndim() == 4, "augment: images must be [N,C,H,W] (images: ", images,
              ")");
  const auto count = static_cast<int64_t>(indices.size());
  LATHE_CHECK(ShapeError, images.dim(0) == count, "augment: ", count,
              " indices for another number of images (images: ", images, ")");
  LATHE_CHECK(DTypeError, options.dtype == kF32 || options.dtype == kF16 || options.dtype == kBF16,
              "augment: the result must be f32, f16 or bf16, got ", options.dtype);
  const ImageSpec in{images.dim(1), images.dim(2), images.dim(3), kU8};
  const ImageSpec out = transform.output(in);
  LATHE_CHECK(ShapeError, in.channels <= kMaxImageChannels, "augment: images of ", in.channels,
              " channels have more than ", kMaxImageChannels, " (images: ", images, ")");

  const Shape shape{count, out.channels, out.height, out.width};
  Tensor y = empty_strided(
      shape,
      options.format == kChannelsLast ? channels_last_strides(shape) : contiguous_strides(shape),
      out.dtype == kU8 ? kU8 : options.dtype, images.device());
  std::vector<PixelPlan> plans;
  plans.reserve(indices.size());
  for (const int64_t index : indices) {
    plans.push_back(transform.plan(nullptr, in, {options.seed, options.epoch, index}));
  }
  if (y.numel() > 0) LATHE_DISPATCH(images.device(), augment(y, images, plans));
  return y;
}

}  // namespace lathe::data
