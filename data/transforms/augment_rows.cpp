// augment_rows(): checks, and the windows that are drawn for it. Kernels: augment_cpu.cpp,
// augment_cuda.cu.
#include "lathe/data/transforms/augment_rows.h"

#include <algorithm>

#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data {
namespace {

constexpr int64_t kWindowBytes = sizeof(SampleWindow);
static_assert(kWindowBytes == 32);

void check_stages(const Transform& transform) {
  LATHE_CHECK(
      ValueError, has_only_pixel_stages(transform),
      "augment_rows: the transform must not have a stage that makes new pixels, such as resize");
}

}  // namespace

bool has_only_pixel_stages(const Transform& transform) {
  return std::ranges::all_of(transform.stages(),
                             [](const Transform::Stage& stage) { return stage.pixel != nullptr; });
}

Tensor draw_windows(const Transform& transform, const ImageSpec& stored,
                    std::span<const int64_t> indices, const AugmentOptions& options) {
  check_stages(transform);
  transform.output(stored);  // throws unless it fits
  const Tensor windows =
      empty({static_cast<int64_t>(indices.size()), kWindowBytes}, {.dtype = kU8});
  auto* const to = reinterpret_cast<SampleWindow*>(windows.raw_data());
  for (size_t n = 0; n < indices.size(); ++n) {
    const Key key{options.seed, options.epoch, indices[n]};
    to[n] = window_of(plan_of(transform.stages(), 0, stored, key));
  }
  return windows;
}

Tensor augment_rows(const Tensor& images, const Tensor& rows, const Tensor& windows,
                    const Transform& transform, const AugmentOptions& options) {
  constexpr const char* kOp = "augment_rows";
  const profile::OpRange range(kOp, {images, rows, windows});
  LATHE_CHECK(DTypeError, images.dtype() == kU8 && windows.dtype() == kU8 && rows.dtype() == kI64,
              kOp, ": images and windows must be u8, rows i64 (images: ", images,
              ", windows: ", windows, ", rows: ", rows, ")");
  LATHE_CHECK(ShapeError, images.ndim() == 4 && rows.ndim() == 1, kOp,
              ": images must be [M,C,H,W] and rows [N] (images: ", images, ", rows: ", rows, ")");
  LATHE_CHECK(ShapeError, (windows.shape() == Shape{rows.dim(0), kWindowBytes}), kOp,
              ": windows must be [", rows.dim(0), ",", kWindowBytes, "] (windows: ", windows,
              ", rows: ", rows, ")");
  for (const Tensor* t : {&rows, &windows}) {
    LATHE_CHECK(DeviceError, t->device() == images.device(), kOp, ": ", *t,
                " is on another device (images: ", images, ")");
  }
  check_options(kOp, images, options);
  check_stages(transform);
  const ImageSpec stored{images.dim(1), images.dim(2), images.dim(3), kU8};
  const ImageSpec out = transform.output(stored);
  const PixelPlan same = plan_of(transform.stages(), 0, stored, Key{0, 0, 0});
  const Shape shape{rows.dim(0), out.channels, out.height, out.width};
  const bool nhwc = options.format == kChannelsLast;
  Tensor y = empty_strided(shape, nhwc ? channels_last_strides(shape) : contiguous_strides(shape),
                           out.dtype == kU8 ? kU8 : options.dtype, images.device());
  const Tensor dense_rows = rows.contiguous(), dense_windows = windows.contiguous();
  if (y.numel() > 0)
    LATHE_DISPATCH(images.device(), augment_rows(y, {images, dense_rows, dense_windows, same}));
  return y;
}

}  // namespace lathe::data
