// augment(): checks and dispatch. The kernels are in augment_cpu.cpp and augment_cuda.cu, and in
// the files of the stages that make new pixels.
#include "lathe/data/transforms/augment.h"

#include <vector>

#include "lathe/core/dispatch.h"
#include "lathe/data/transforms/image_stage.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data {
namespace {

using Stages = std::span<const Transform::Stage>;

struct Samples {
  std::span<const int64_t> indices;
  const AugmentOptions& options;

  Key key(size_t n) const { return {options.seed, options.epoch, indices[n]}; }
};

/// Runs the pixel stages from `first` to before `last` in one pass.
Tensor run_pixel_stages(const Tensor& images, Stages stages, size_t first, size_t last,
                        const Samples& samples) {
  const ImageSpec in{images.dim(1), images.dim(2), images.dim(3), kU8};
  ImageSpec out = in;
  for (size_t k = first; k < last; ++k) out = stages[k].pixel->output(out);
  std::vector<PixelPlan> plans;
  plans.reserve(samples.indices.size());
  for (size_t n = 0; n < samples.indices.size(); ++n)
    plans.push_back(plan_of(stages.subspan(first, last - first), first, in, samples.key(n)));
  const Shape shape{images.dim(0), out.channels, out.height, out.width};
  const bool nhwc = last == stages.size() && samples.options.format == kChannelsLast;
  Tensor y = empty_strided(shape, nhwc ? channels_last_strides(shape) : contiguous_strides(shape),
                           out.dtype == kU8 ? kU8 : samples.options.dtype, images.device());
  if (y.numel() > 0) LATHE_DISPATCH(images.device(), augment(y, images, plans));
  return y;
}

Tensor run_image_stage(const Tensor& images, Stages stages, size_t at, const Samples& samples) {
  std::vector<Random> randoms;
  for (size_t n = 0; n < samples.indices.size(); ++n)
    randoms.push_back(samples.key(n).random(kTransformStream + static_cast<int>(at)));
  return stages[at].image->run_batch(images, randoms);
}

}  // namespace

void check_options(const char* op, const Tensor& images, const AugmentOptions& options) {
  LATHE_CHECK(DTypeError, options.dtype == kF32 || options.dtype == kF16 || options.dtype == kBF16,
              op, ": the result must be f32, f16 or bf16, got ", options.dtype);
  LATHE_CHECK(ShapeError, images.dim(1) <= kMaxImageChannels, op, ": images of ", images.dim(1),
              " channels have more than ", kMaxImageChannels, " (images: ", images, ")");
}

Tensor augment(const Tensor& images, const Transform& transform, std::span<const int64_t> indices,
               const AugmentOptions& options) {
  LATHE_CHECK(DTypeError, images.dtype() == kU8, "augment: images must be u8 (images: ", images,
              ")");
  LATHE_CHECK(ShapeError, images.ndim() == 4, "augment: images must be [N,C,H,W] (images: ", images,
              ")");
  LATHE_CHECK(ShapeError, images.dim(0) == static_cast<int64_t>(indices.size()),
              "augment: ", indices.size(),
              " indices for another number of images (images: ", images, ")");
  check_options("augment", images, options);
  transform.output({images.dim(1), images.dim(2), images.dim(3), kU8});  // throws unless it fits

  const Samples samples{indices, options};
  const Stages stages = transform.stages();
  Tensor result = images;
  for (size_t k = 0;; ++k) {
    const size_t first = k;
    while (k < stages.size() && stages[k].pixel) ++k;
    const bool is_last = k == stages.size();
    const bool has_format = first > 0 && options.format == kContiguous;
    if (k > first || (is_last && !has_format))
      result = run_pixel_stages(result, stages, first, k, samples);
    if (is_last) return result;
    result = run_image_stage(result, stages, k, samples);
  }
}

}  // namespace lathe::data
